"""What is refused before the first step, with the leaf's name and the remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.tree_util import keystr, tree_leaves_with_path

from replicax.errors import UserError

_COLLECTIVES = {"psum", "psum_invariant", "pmin", "pmax", "all_gather", "all_gather_invariant"}
_BRANCHES = {"cond": "lax.cond or lax.switch", "while": "lax.while_loop"}


def check_arrays(what: str, tree: Any) -> None:
    """Raises UserError naming the first leaf that is not an array."""
    for path, leaf in tree_leaves_with_path(tree):
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            raise UserError(
                f"every leaf of the {what} must be an array; {what}{keystr(path)} is of type "
                f"{type(leaf).__name__}; keep functions and settings outside, or make it an array"
            )


def check_batch(batch: Any, batch_size: int) -> None:
    """Raises UserError naming the first leaf without the examples on its leading axis."""
    check_arrays("batch", batch)
    leaves = tree_leaves_with_path(batch)
    if not leaves:
        raise UserError("a batch holds at least one array; got an empty one from input_fn")
    for path, leaf in leaves:
        if leaf.ndim == 0 or leaf.shape[0] != batch_size:
            raise UserError(
                f"every leaf of a batch has the {batch_size} examples of batch_size on its leading "
                f"axis; batch{keystr(path)} has shape {list(leaf.shape)}"
            )


def check_same_state(before: Any, after: Any) -> None:
    """Raises UserError naming what a step changed: structure, shape or type."""
    old = tree_leaves_with_path(before)
    new = dict(tree_leaves_with_path(after))
    structures: list[Any] = [jax.tree.structure(before), jax.tree.structure(after)]
    if structures[0] != structures[1]:
        gone = [keystr(path) for path, _ in old if path not in new]
        known = {path for path, _ in old}
        come = [keystr(path) for path in new if path not in known]
        raise UserError(
            "a step returns a state of the structure it was given; gone: "
            f"{', '.join(gone) or 'nothing'}; new: {', '.join(come) or 'nothing'}; if neither, the "
            "type of a container has changed"
        )
    for path, leaf in old:
        was, now = jax.typeof(leaf), jax.typeof(new[path])
        if (was.shape, was.dtype) != (now.shape, now.dtype):
            raise UserError(
                f"a step keeps the shape and type of every leaf; state{keystr(path)} was "
                f"{was.str_short()} and came back as {now.str_short()}; cast it in the step"
            )


def check_equal_on_all(
    step: Callable[..., Any], arguments: tuple[Any, ...], axis: str, n: int
) -> None:
    """Proves that what a step returns is equal on all replicas: its state, and its values.

    Traces the step mapped over the replicas. There a result has no mapped axis just when it cannot
    depend on the replica: it comes from the state, or through a collective.

    Args:
      step: (state, share, step, key) -> {"state": ..., "values": ...} for one replica.
      arguments: shapes; the leaves of the share have a leading axis over the replicas.
      axis, n: name and size of the mapped axis.

    Raises:
      UserError: names the first leaf that can differ.
    """

    def traced(out_axes: Any) -> Any:
        in_axes = (None, 0, None, None)
        mapped = jax.vmap(step, in_axes, out_axes, axis_name=axis, axis_size=n)
        return jax.eval_shape(mapped, *arguments)

    try:
        traced(None)
    except ValueError:
        every = traced(0)  # what is wrong with the step itself is raised again
        leaves, structure = jax.tree.flatten(every)
        for i, (path, _) in enumerate(tree_leaves_with_path(every)):
            axes = jax.tree.unflatten(
                structure, [None if i == j else 0 for j in range(len(leaves))]
            )
            try:
                traced(axes)
            except ValueError as error:
                raise UserError(_disagreement(path)) from error
        raise


def _disagreement(path: tuple[Any, ...]) -> str:
    name = f"{path[0].key}{keystr(path[1:])}"
    if path[0].key == "state":
        return (
            f"the state must stay equal on all replicas; {name} depends on the replica's own "
            "examples or number: a gradient was never reduced, or a statistic; use value_and_grad "
            "or wrap_optimizer, or reduce it with all_mean"
        )
    return (
        f"the values of a step are equal on all replicas unless declared; {name} depends on the "
        "replica; reduce it with all_mean, or return per_replica(value) to get one for each"
    )


def check_no_branch_communicates(
    step: Callable[..., Any], arguments: tuple[Any, ...], axis: str, n: int
) -> None:
    """Raises UserError for a collective where replicas could part ways, and wait for ever.

    Args: as of `check_equal_on_all`.
    """
    state, shares, *rest = arguments
    share = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), shares)
    jaxpr = jax.make_jaxpr(step, axis_env=[(axis, n)])(state, share, *rest)
    for branch, collective in _in_branches(jaxpr, None):
        raise UserError(
            f"every replica calls every collective; {collective} stands inside "
            f"{_BRANCHES[branch]}, which replicas may leave by different ways, and would wait for "
            "ever; move it before or after, or compute both ways and choose with jnp.where"
        )


def _in_branches(jaxpr: Any, branch: str | None) -> Iterator[tuple[str, str]]:
    """Collectives under a branch: (the branch's primitive, the collective's)."""
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        name = equation.primitive.name
        if branch is not None and name in _COLLECTIVES:
            yield branch, name
        inside = name if name in _BRANCHES else branch
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                if hasattr(getattr(inner, "jaxpr", inner), "eqns"):
                    yield from _in_branches(inner, inside)
