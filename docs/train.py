"""Trains a decoder-only transformer on batches of flatmix; docs/training.md tells about it.

    python docs/train.py run.toml checkpoints --steps 40

The run file gives a `vocab_size`, and its store has the splits train and validation. The same command after a kill goes
on from the newest checkpoint. Needs optax and orbax-checkpoint: pip install '.[train]'
"""

import argparse
import os
import sys
import traceback
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import flatmix

WIDTH, HEADS, LAYERS = 64, 4, 2
EVALUATED = 2  # batches of the validation split, always the same ones
# Each parameter with its shape, the number of its inputs, and the axis that is divided over "model".
PARAMS = {
    "embed": (("vocabulary", WIDTH), 1, P(None, "model")),
    "qkv": ((LAYERS, WIDTH, 3, HEADS, WIDTH // HEADS), WIDTH, P(None, None, None, "model")),
    "out": ((LAYERS, HEADS, WIDTH // HEADS, WIDTH), WIDTH, P(None, "model")),
    "up": ((LAYERS, WIDTH, 4 * WIDTH), WIDTH, P(None, None, "model")),
    "down": ((LAYERS, 4 * WIDTH, WIDTH), 4 * WIDTH, P(None, "model")),
    "unembed": ((WIDTH, "vocabulary"), WIDTH, P(None, "model")),
}


def initial_state(optimizer: optax.GradientTransformation, vocabulary: int) -> dict:
    """Parameters and optimizer; the same numbers on every mesh."""
    params = {}
    for number, (name, (shape, fan_in, _)) in enumerate(PARAMS.items()):
        shape = [vocabulary if size == "vocabulary" else size for size in shape]
        params[name] = jax.random.normal(jax.random.key(number), shape) * fan_in**-0.5
    return {"params": params, "optimizer": optimizer.init(params)}


def loss_sums(languages: int, params: dict, batch: flatmix.TokenBatch) -> jax.Array:
    """The cross-entropy of each language, in nats and summed, and over how many targets: float32[languages, 2]."""
    document = flatmix.segment_ids(batch.is_seq_start)
    same = (document[:, :, None] == document[:, None, :])[:, None]  # bool[batch, 1, len, len]

    def layer(x: jax.Array, weights: dict) -> tuple[jax.Array, None]:
        q, k, v = jnp.moveaxis(jnp.einsum("bld,dnhe->blnhe", jax.nn.standardize(x), weights["qkv"]), 2, 0)
        seen = jax.nn.dot_product_attention(q, k, v, mask=same, is_causal=True)
        x = x + jnp.einsum("blhe,hed->bld", seen, weights["out"])
        return x + jax.nn.gelu(jax.nn.standardize(x) @ weights["up"]) @ weights["down"], None

    position = flatmix.segment_positions(batch.is_seq_start)[:, :, None].astype(jnp.float32)
    angle = position * 10_000.0 ** -jnp.linspace(0.0, 1.0, WIDTH // 2)
    x = params["embed"][batch.inputs] + jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1)
    x, _ = jax.lax.scan(layer, x, {name: params[name] for name in ("qkv", "out", "up", "down")})
    logits = jax.nn.standardize(x) @ params["unembed"]
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch.targets.astype(jnp.int32))
    counted = batch.loss_mask.astype(jnp.float32)
    rows = jnp.stack([(losses * counted).sum(axis=1), counted.sum(axis=1)], axis=1)
    return jax.ops.segment_sum(rows, batch.language, languages)


def train_step(
    optimizer: optax.GradientTransformation, languages: int, state: dict, batch: flatmix.TokenBatch
) -> tuple[dict, jax.Array]:
    """The state after a step, and the `loss_sums` before it."""

    def mean_loss(params: dict) -> tuple[jax.Array, jax.Array]:
        sums = loss_sums(languages, params, batch)
        return sums[:, 0].sum() / sums[:, 1].sum(), sums

    gradients, sums = jax.grad(mean_loss, has_aux=True)(state["params"])
    updates, optimizer_state = optimizer.update(gradients, state["optimizer"], state["params"])
    return {"params": optax.apply_updates(state["params"], updates), "optimizer": optimizer_state}, sums


def say(step: int, what: str, languages: tuple[str, ...], sums: np.ndarray) -> None:
    """The mean over all targets with all its digits, then that of each language that had some."""
    each = ", ".join(f"{name} {loss / n:.4f}" for name, (loss, n) in zip(languages, sums, strict=True) if n)
    if jax.process_index() == 0:
        print(f"step {step}: {what} {sums[:, 0].sum() / sums[:, 1].sum()} ({each})", flush=True)


def main(arguments: argparse.Namespace) -> None:
    if arguments.processes:
        jax.distributed.initialize()  # before anything else of JAX

    run = flatmix.read_run(arguments.run)
    if run.params.vocab_size is None:
        raise SystemExit(f"{arguments.run}: the model takes the size of its vocabulary from [data] vocab_size")

    # Rows are divided over "data"; over "model" they are whole, or their tokens are divided, too.
    mesh = Mesh(np.array(jax.devices()).reshape(-1, arguments.model), ("data", "model"))
    rows = NamedSharding(mesh, P("data", "model" if arguments.divide_rows else None))
    loader = flatmix.get_loader("train", arguments.run, sharding=rows)
    languages = loader.languages
    # Few rows are evaluated, so they are read one by one, without shuffle buffers.
    unbuffered = replace(run.params, memory_budget=0)
    validation = flatmix.get_loader("validation", unbuffered, run.token_batch_params, run.mixture, rows)

    # Whatever has a parameter's name is divided as it is: the parameter, and what the optimizer keeps of it.
    optimizer = optax.adamw(optax.warmup_cosine_decay_schedule(0.0, 0.01, arguments.steps // 10, arguments.steps))
    start_anew = partial(initial_state, optimizer, run.params.vocab_size)
    specs, everywhere = {name: spec for name, (_, _, spec) in PARAMS.items()}, NamedSharding(mesh, P())
    shapes = jax.eval_shape(start_anew)
    layout = jax.tree_util.tree_map_with_path(
        lambda path, _: NamedSharding(mesh, specs.get(getattr(path[-1], "key", ""), P())), shapes
    )
    step_over = jax.jit(
        partial(train_step, optimizer, len(languages)), donate_argnums=0, out_shardings=(layout, everywhere)
    )
    evaluate = jax.jit(partial(loss_sums, len(languages)), out_shardings=everywhere)

    # A checkpoint holds the model and the state of the loader. It is there as a whole or not at all.
    options = ocp.CheckpointManagerOptions(save_interval_steps=arguments.every, max_to_keep=2)
    with loader, validation, ocp.CheckpointManager(arguments.checkpoints.absolute(), options=options) as manager:
        if manager.latest_step() is None:
            state, start = jax.jit(start_anew, out_shardings=layout)(), 0
        else:
            wanted = jax.tree.map(lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s), shapes, layout)
            parts = ocp.args.Composite(model=ocp.args.StandardRestore(wanted), data=ocp.args.JsonRestore())
            saved = manager.restore(manager.latest_step(), args=parts)
            state, start = saved.model, loader.restore(saved.data)

        for step, batch in enumerate(loader.steps(start, arguments.steps), start):
            state, sums = step_over(state, batch)
            say(step, "loss", languages, np.asarray(sums, np.float64))
            done, last = step + 1, step + 1 == arguments.steps
            if done % arguments.every == 0 or last:
                sums = [evaluate(state["params"], validation.load(number)) for number in range(EVALUATED)]
                say(step, "validation", languages, np.sum(sums, axis=0, dtype=np.float64))
            if manager.should_save(done) or last:  # also at a notice that this job will be ended
                parts = {"model": ocp.args.StandardSave(state), "data": ocp.args.JsonSave(loader.state(done))}
                manager.save(done, args=ocp.args.Composite(**parts), force=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="a run file")
    parser.add_argument("checkpoints", type=Path, help="a folder; made where there is none")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--every", type=int, default=10, help="steps from one evaluation and checkpoint to the next")
    parser.add_argument("--model", type=int, default=1, help="devices that share one copy of the parameters")
    parser.add_argument("--divide-rows", action="store_true", help="divide the tokens of each row over these, too")
    parser.add_argument("--processes", action="store_true", help="one of several processes, under Slurm for example")
    try:
        main(parser.parse_args())
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # at once: JAX's own exit would wait for the other processes
