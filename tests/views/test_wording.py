"""The statement under the tables is built only from what is known."""

from dataclasses import replace

from view_records import CURVES, REFUSED, curve, known, point, resnet_8

from replicax.analysis.records import Estimate
from replicax.views import wording


def test_everything_known():
    text = wording.summary(resnet_8())
    assert "Perfect scaling ends near batch size 256 (90 %: 130 to 410)" in text
    assert "less and less" in text
    assert "Beyond batch size 1,024 (90 %: 512 to 2,048)" in text
    assert "not known" not in text


def test_refusals_give_their_reason_once():
    text = wording.summary(CURVES["one"])
    assert text.count("the largest batch is not on a plateau") == 1
    assert "Perfect scaling ends near" not in text
    assert "Beyond" not in text


def test_one_refusal_leaves_the_plain_fact():
    text = wording.summary(CURVES["few"])
    assert text.startswith(
        "The goal took 2,310 steps at batch size 16 and 300 at 256, 16 times the batch."
    )
    assert "Where larger batches stop helping is not known" in text


def test_contradicting_borders_claim_nothing_between_them():
    assert "less and less" not in wording.summary(CURVES["contradiction"])


def test_nothing_reached_and_nothing_measured():
    assert wording.summary(CURVES["unsolved"]).startswith("No trial reached validation_error < 0.1")
    assert wording.summary(CURVES["empty"]) == "Nothing was measured yet."


def test_unreached_batch_sizes_are_named():
    text = wording.summary(CURVES["flagged"])
    assert text.endswith("The goal was not reached at batch size 1, 2,048 and 8,192.")


def test_unfinished_studies_are_not_called_unreached():
    done, missing = point(8, 100, interval=(90, 110)), point(16, None)
    running = replace(missing, runs=tuple(replace(run, status="running") for run in missing.runs))
    text = wording.summary(curve([done, running]))
    assert "The study is not finished at batch size 16." in text
    assert "not reached" not in text
    assert "not finished" in wording.summary(curve([running]))


def test_estimate():
    assert wording.estimate(known(410.0, 300.0, 560.0)) == "410 (90 %: 300 to 560)"
    assert wording.estimate(known(410.0, None, 560.0)) == "410 (90 %: ? to 560)"
    assert wording.estimate(known(410.0)) == "410"
    assert wording.estimate(REFUSED) == "refused: the largest batch is not on a plateau"
    silent = Estimate(value=None, low=None, high=None, reason=None)
    assert wording.estimate(silent) == "refused: no reason recorded"


def test_goal_says_which_way():
    assert wording.goal(CURVES["tiny"]) == "average_precision > 0.31"
