"""The demo's training run: a small decoder-only transformer on sharded batches, which may be killed at any moment.

    python -m flatmix.demo.train STORE CHECKPOINT --steps 40

goes on from CHECKPOINT where there is one. After each step it saves parameters and loader state together and prints one
JSON line: step, loss, seconds since the start, and a hash of all data and losses from step 0 on.
"""

import argparse
import hashlib
import json
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import flatmix

# Shares of the rows; the sequence of the languages is part of the order.
WEIGHTS = {"en": 6, "el": 1, "ru": 2, "hi": 1, "ar": 2, "th": 1, "ja": 2, "ko": 1, "ka": 1, "sw": 1}
VOCABULARY, WIDTH, HEADS, LAYERS = 256, 64, 4, 2
SHAPE = flatmix.TokenBatchParams(len=128, batch=32, extra_tokens=1, stride=128)
LEARNING_RATE = 0.02

Params = dict[str, Any]


def make_loader(store: str, sharding: NamedSharding | None = None) -> flatmix.ShufflingLoader:
    """The loader of the demo."""
    order = flatmix.FlatTokensParams(store, streams=8, seed=2026, sequences_per_read_block=4, vocab_size=VOCABULARY)
    return flatmix.ShufflingLoader("train", order, flatmix.MixtureParams(WEIGHTS), SHAPE, sharding)


def initial_params() -> Params:
    """Parameters from a fixed seed."""
    random = np.random.Generator(np.random.Philox(0))

    def matrix(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) / np.sqrt(shape[-2])).astype(np.float32)

    return {
        "embed": matrix(VOCABULARY, WIDTH),
        "qkv": matrix(LAYERS, WIDTH, 3 * WIDTH),
        "out": matrix(LAYERS, WIDTH, WIDTH),
        "up": matrix(LAYERS, WIDTH, 4 * WIDTH),
        "down": matrix(LAYERS, 4 * WIDTH, WIDTH),
        "unembed": matrix(WIDTH, VOCABULARY),
    }


def mean_loss(params: Params, batch: flatmix.TokenBatch) -> jax.Array:
    """Mean cross-entropy in nats of the targets that `loss_mask` counts; attention stays within documents."""
    document = jnp.cumsum(batch.is_seq_start, axis=1)  # int[batch, len]
    position = jnp.arange(SHAPE.len)
    visible = (document[:, :, None] == document[:, None, :]) & (position[:, None] >= position)
    x = params["embed"][batch.inputs]
    for layer in range(LAYERS):
        heads = _normalised(x) @ params["qkv"][layer]
        q, k, v = jnp.split(heads.reshape(*x.shape[:2], HEADS, -1), 3, axis=-1)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(WIDTH / HEADS).astype(np.float32)
        weights = jax.nn.softmax(jnp.where(visible[:, None], scores, jnp.float32(-1e9)))
        x = x + jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape) @ params["out"][layer]
        x = x + jax.nn.gelu(_normalised(x) @ params["up"][layer]) @ params["down"][layer]
    log_chance = jax.nn.log_softmax(_normalised(x) @ params["unembed"])
    chosen = jnp.take_along_axis(log_chance, batch.targets[:, :, None].astype(jnp.int32), axis=2)[:, :, 0]
    return -jnp.sum(chosen * batch.loss_mask) / jnp.sum(batch.loss_mask).astype(jnp.float32)


def _normalised(x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + jnp.float32(1e-6))


@partial(jax.jit, donate_argnums=0)
def train_step(params: Params, batch: flatmix.TokenBatch) -> tuple[Params, jax.Array]:
    """One step of gradient descent, each matrix by its gradient's root mean square."""
    loss, gradients = jax.value_and_grad(mean_loss)(params, batch)

    def descend(value: jax.Array, gradient: jax.Array) -> jax.Array:
        scale = jax.lax.rsqrt(jnp.mean(gradient * gradient) + jnp.float32(1e-12))
        return value - jnp.float32(LEARNING_RATE) * jnp.std(value) * scale * gradient

    return jax.tree.map(descend, params, gradients), loss


def chained_hash(before: str, batch: flatmix.TokenBatch, loss: jax.Array) -> str:
    """The hash before, all arrays of the batch and the bits of the loss -> the hash after."""
    chain = hashlib.sha256(before.encode())
    for array in (*jax.tree.leaves(batch), loss):
        chain.update(np.asarray(array).tobytes())
    return chain.hexdigest()


def save(path: Path, params: Params, state: dict[str, Any], chain: str) -> None:
    """Parameters, loader state and hash in one file, which is there whole or not at all."""
    temporary = path.with_suffix(".part")
    with temporary.open("wb") as file:
        np.savez(file, meta=np.array(json.dumps({"state": state, "chain": chain})), **params)
    temporary.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--steps", type=int, default=40)
    arguments = parser.parse_args()
    started = time.perf_counter()

    mesh = Mesh(jax.devices(), "data")
    everywhere = NamedSharding(mesh, PartitionSpec())
    loader = make_loader(arguments.store, NamedSharding(mesh, PartitionSpec("data")))
    params, start, chain = initial_params(), 0, ""
    if arguments.checkpoint.exists():
        with np.load(arguments.checkpoint) as saved:
            params = {name: saved[name] for name in params}
            meta = json.loads(str(saved["meta"]))
        start, chain = loader.restore(meta["state"]), meta["chain"]
    params = jax.device_put(params, everywhere)
    for step, batch in enumerate(loader.steps(start, arguments.steps), start):
        params, loss = train_step(params, batch)
        chain = chained_hash(chain, batch, loss)
        save(arguments.checkpoint, params, loader.state(step + 1), chain)
        seconds = round(time.perf_counter() - started, 2)
        print(json.dumps({"step": step, "loss": float(loss), "seconds": seconds, "chain": chain}), flush=True)
    loader.close()


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main()
