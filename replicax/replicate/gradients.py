"""Gradients of means over the global batch: a local weighted sum, differentiated, then reduced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from replicax.errors import UserError
from replicax.replicate.collectives import all_mean, all_sum, ordered_sum
from replicax.replicate.scope import Scope, current, entered, part
from replicax.replicate.weighted import WeightedSum

LossFunction = Callable[..., Any]
PartFunction = Callable[..., tuple[Any, Any]]


def value_and_grad(loss_fn: LossFunction, *, has_aux: bool = False) -> Callable[..., Any]:
    """The loss over the global batch and its gradient, the same on all replicas.

    Micro-batches and replicas are one weighted sum, divided once by the weight of all examples.
    Outside of a replicator it is the gradient over the batch given.

    Args:
      loss_fn: (params, batch, *more) -> `weighted(values, weight)`, or that and an auxiliary
        pytree. Leaves of `batch` are [n, ...].
      has_aux: there is an auxiliary pytree: `WeightedSum`s, which are added up, or arrays
        [n, ...] of this replica's examples.

    Returns:
      (params, batch, *more) -> (loss, gradient), or ((loss, aux), gradient): a scalar, the
      structure of `params`. Sums in `aux` are this replica's: `all_mean` makes means of them.

    Raises:
      UserError: the loss is not a weighted sum, or the batch cannot be split.
    """

    def local(params: Any, scope: Scope | None, batch: Any, *more: Any) -> tuple[Any, Any]:
        if scope is None:
            found = loss_fn(params, batch, *more)
        else:
            with entered(scope):
                found = loss_fn(params, batch, *more)
        loss, aux = found if has_aux else (found, None)
        _check_loss(loss, has_aux)
        return loss.total, (loss.weight, aux)

    gradient_of = jax.value_and_grad(local, has_aux=True)

    def of_part(scope: Scope | None, params: Any, batch: Any, *more: Any) -> tuple[Any, Any]:
        (total, (weight, aux)), gradient = gradient_of(params, scope, batch, *more)
        return (WeightedSum(total, weight), gradient), aux

    def function(params: Any, batch: Any, *more: Any) -> Any:
        scope = current()
        sums, aux = _over_parts(of_part, scope, params, batch, *more)
        loss, gradient = all_sum(sums)
        gradient = jax.tree.map(lambda g: g / loss.weight.astype(g.dtype), gradient)
        value = loss.total / loss.weight.astype(loss.total.dtype)
        return ((value, aux), gradient) if has_aux else (value, gradient)

    return function


def wrap_optimizer(
    optimizer: optax.GradientTransformation,
) -> optax.GradientTransformationExtraArgs:
    """An optax optimizer that combines the gradients of all replicas before it updates.

    For steps that differentiate on their own. `update(gradients, state, params, weight=w)` takes
    gradients of a local mean and the weight of that mean, such as its number of examples; without
    a weight every replica counts the same.
    """
    inner = optax.with_extra_args_support(optimizer)

    def update(
        updates: Any, state: Any, params: Any = None, *, weight: Any = None, **more: Any
    ) -> Any:
        return inner.update(all_mean(updates, weight), state, params, **more)

    return optax.GradientTransformationExtraArgs(inner.init, update)


def _check_loss(loss: Any, has_aux: bool) -> None:
    if not isinstance(loss, WeightedSum) or jnp.shape(loss.total) != ():
        wanted = "(weighted(values, weight), aux)" if has_aux else "weighted(values, weight)"
        raise UserError(
            f"a loss function returns {wanted}, one value and one weight per example, so that any "
            f"split of the batch has the same mean; got {_described(loss)}"
        )


def _described(x: Any) -> str:
    shape = getattr(x, "shape", None)
    return type(x).__name__ if shape is None else f"an array of shape {list(shape)}"


def _over_parts(
    of_part: Callable[..., tuple[Any, Any]],
    scope: Scope | None,
    params: Any,
    batch: Any,
    *more: Any,
) -> tuple[Any, Any]:
    """Adds up the parts of a replica's batch: in order and apart, or in a loop to save memory."""
    if scope is None or (scope.parts == 1 and not scope.ordered):
        return of_part(scope, params, batch, *more)
    parts = jax.tree.map(lambda x: _split(x, scope), batch)
    if scope.ordered:
        return _apart(of_part, scope, params, parts, *more)

    def body(sums: Any, numbered: tuple[jax.Array, Any]) -> tuple[Any, Any]:
        number, examples = numbered
        added, aux = of_part(part(scope, number), params, examples, *more)
        return jax.tree.map(jnp.add, sums, added), aux

    first = jax.tree.map(lambda x: x[0], parts)
    shapes, _ = jax.eval_shape(lambda: of_part(part(scope, 0), params, first, *more))
    zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    sums, aux = jax.lax.scan(body, zeros, (jnp.arange(scope.parts), parts))
    return sums, _joined(aux)


def _apart(
    of_part: PartFunction, scope: Scope, params: Any, parts: Any, *more: Any
) -> tuple[Any, Any]:
    """Each part alone between barriers: fused with its neighbours it would round differently."""
    sums, auxes = [], []
    for number in range(scope.parts):
        examples = jax.tree.map(lambda x, number=number: x[number], parts)
        here, given = jax.lax.optimization_barrier((params, examples))
        added, aux = of_part(part(scope, number), here, given, *more)
        sums.append(jax.lax.optimization_barrier(added))
        auxes.append(aux)
    return ordered_sum(sums), _joined(jax.tree.map(lambda *a: jnp.stack(a), *auxes))


def _split(x: jax.Array, scope: Scope) -> jax.Array:
    if jnp.ndim(x) == 0 or x.shape[0] != scope.count:
        raise UserError(
            f"the batch of value_and_grad has {scope.count} examples on every leading axis, the "
            f"share of a replica; got a leaf of shape {list(jnp.shape(x))}; give what is not per "
            "example as a further argument"
        )
    return x.reshape(scope.parts, scope.count // scope.parts, *x.shape[1:])


def _joined(aux: Any) -> Any:
    """Sums added up, arrays one after another."""

    def join(x: Any) -> Any:
        if isinstance(x, WeightedSum):
            return jax.tree.map(lambda y: y.sum(0), x)
        if x.ndim < 2:
            raise UserError(
                "with micro-batches an auxiliary value is a WeightedSum or an array [n, ...] of "
                f"the examples; got one of shape {list(x.shape[1:])}"
            )
        return x.reshape(-1, *x.shape[2:])

    return jax.tree.map(join, aux, is_leaf=lambda x: isinstance(x, WeightedSum))
