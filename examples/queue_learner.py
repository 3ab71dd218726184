"""Actors fill a queue of trajectories that feeds a replicated learner: reinforcement learning.

    python examples/queue_learner.py

The actors play a two-armed bandit with the newest policy; the learner follows the policy gradient.
"""

import queue
import threading

import jax
import jax.numpy as jnp
import numpy as np
import optax

import replicax as rx

batch_size = 64
optimizer = optax.sgd(0.5)
win_rate = np.array([0.2, 0.8])
trajectories = queue.Queue(maxsize=4)  # actors are never far ahead of the learner
policy = {"logits": np.zeros(2, np.float32)}
ended = threading.Event()


def act(seed):
    random = np.random.default_rng(seed)
    while not ended.is_set():
        chance = np.exp(policy["logits"]) / np.exp(policy["logits"]).sum()
        action = random.choice(2, size=batch_size, p=chance)
        reward = (random.random(batch_size) < win_rate[action]).astype(np.float32)
        try:
            trajectories.put({"action": action, "reward": reward}, timeout=1)
        except queue.Full:
            continue


def input_fn(_):
    return trajectories.get  # a callable: never read ahead of the step


def loss_fn(logits, batch):
    chosen = jax.nn.log_softmax(logits)[batch["action"]]
    return rx.weighted(-chosen * (batch["reward"] - 0.5), batch["weight"])


def step_fn(state, batch):
    _, gradient = rx.value_and_grad(loss_fn)(state.params, batch)
    reward = rx.all_mean(rx.weighted(batch["reward"], batch["weight"]))
    return state.update(gradient, optimizer), {"reward": reward}


if __name__ == "__main__":
    actors = [threading.Thread(target=act, args=(seed,)) for seed in range(2)]
    with rx.Replicator(batch_size, replicas=4) as replicator:
        state = replicator.init(lambda _: rx.TrainState.create(jnp.zeros(2), optimizer))
        for actor in actors:
            actor.start()
        for state, values in replicator.run(step_fn, state, input_fn, steps=100):
            policy["logits"] = np.array(state.params)
        print(f"reward {values['reward']:.2f}, of at most {win_rate.max()} on average")
        ended.set()
        for actor in actors:
            actor.join()
