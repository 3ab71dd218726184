"""result.json: strict, stable, and described key by key."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from view_records import CURVES, curve, known, point

from replicax.analysis.records import Fit
from replicax.views.result import to_json, to_text, write_result

DESCRIPTION = Path(__file__).parents[2] / "docs" / "result_schema.md"
BY_NAME = {"hyperparameters"}  # objects whose keys are data
OPAQUE = {"configuration", "execution", "provenance"}  # described by those who write them


def result(record, **changes):
    given = {
        "status": "finished",
        "configuration": {"trials": 100},
        "execution": {"16": {"group_size": 8}},
        "provenance": [{"replicax": "0.1.0"}],
    }
    return to_json(record, **{**given, **changes})


def paths(value, path=""):
    """Every key as the description writes it."""
    if isinstance(value, dict):
        opaque = path.strip("[]") in OPAQUE
        for key, item in {} if opaque else value.items():
            name = "*" if path.rsplit(".", 1)[-1] in BY_NAME else key
            yield from paths(item, f"{path}.{name}" if path else name)
    if isinstance(value, list):
        for item in value:
            yield from paths(item, f"{path}[]")
    elif path:
        yield path


def described():
    return {
        key: (kind, null)
        for key, kind, null in re.findall(
            r"^\| `(\S+)` \| (\w+) \| .* \| ([^|]+) \|$", DESCRIPTION.read_text("utf-8"), re.M
        )
    }


@pytest.mark.parametrize("name", CURVES)
def test_no_key_is_undescribed(name):
    assert set(paths(result(CURVES[name]))) <= set(described())


def test_every_described_key_is_produced():
    assert set(paths(result(CURVES["flagged"]))) == set(described())


TYPES = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "object": dict,
}


def check(value, path, rules):
    kind, null = rules[path]
    if value is None:
        assert null != "never", path
        return
    assert isinstance(value, TYPES[kind]), path
    assert isinstance(value, bool) == (kind == "boolean"), path


def leaves(value, path=""):
    if isinstance(value, list):
        for item in value:
            yield from leaves(item, f"{path}[]")
        return
    if path:
        yield path, value
    if isinstance(value, dict) and path.strip("[]") not in OPAQUE:
        for key, item in value.items():
            name = "*" if path.rsplit(".", 1)[-1] in BY_NAME else key
            yield from leaves(item, f"{path}.{name}" if path else name)


@pytest.mark.parametrize("name", CURVES)
def test_types_and_nulls_are_as_described(name):
    rules = described()
    for path, value in leaves(result(CURVES[name])):
        check(value, path, rules)


def test_top_level_order():
    assert list(result(CURVES["few"])) == [
        "schema_version",
        "task",
        "optimizer",
        "metric",
        "maximize",
        "goal",
        "status",
        "points",
        "fit",
        "estimates",
        "configuration",
        "execution",
        "provenance",
    ]


def test_values():
    found = result(CURVES["resnet_8"])
    assert found["schema_version"] == 1
    assert found["estimates"]["end_of_perfect_scaling"] == {
        "value": 256,
        "low": 130,
        "high": 410,
        "reason": None,
    }
    first, source = found["points"][0], CURVES["resnet_8"].points[0]
    assert (first["batch_size"], first["steps"], first["trial"]) == (2, 130_000, source.trial)
    assert first["interval"] == [110_500, 156_000]
    assert first["hyperparameters"] == source.runs[source.trial].hyperparameters
    assert found["points"][-1]["batch_size"] == 8192


def test_the_order_of_the_records_does_not_matter():
    record = CURVES["few"]
    points = tuple(replace(p, runs=p.runs[::-1]) for p in record.points[::-1])
    assert to_text(result(replace(record, points=points))) == to_text(result(record))


def test_what_is_not_finite_is_null():
    record = curve(
        [replace(point(4, 10), best=math.nan, value=math.inf)],
        fit=Fit(s_min=1.0, b_crit=math.inf, rms_octaves=0.0),
        critical_batch_size=known(3.0, -math.inf, math.nan),
    )
    found = result(record, configuration={"goal": np.float32("nan"), "seeds": np.arange(2)})
    json.loads(to_text(found), parse_constant=pytest.fail)
    assert found["points"][0]["best"] is None
    assert found["points"][0]["value"] is None
    assert found["fit"]["b_crit"] is None
    assert found["estimates"]["critical_batch_size"]["low"] is None
    assert found["configuration"] == {"goal": None, "seeds": [0, 1]}


def test_objects_passed_in_become_json():
    given = {16: {"executor": ("scan", True), "folder": Path("a") / "b", "n": np.int64(3)}}
    assert result(CURVES["one"], execution=given)["execution"] == {
        "16": {"executor": ["scan", True], "folder": str(Path("a") / "b"), "n": 3}
    }


def test_what_json_cannot_hold_is_an_error():
    with pytest.raises(TypeError, match="JSON holds no set"):
        result(CURVES["one"], configuration={"batch_sizes": {1, 2}})


def test_written_text_is_what_is_read(tmp_path):
    found = result(curve([point(4, 100)], task="données"))
    write_result(found, tmp_path / "result.json")
    text = (tmp_path / "result.json").read_text("utf-8")
    assert json.loads(text) == found
    assert "données" in text
    assert text.endswith("}\n")
