"""Keras on points around the centre of their kind, which are made here."""

import logging
from typing import Any

import keras
import numpy as np

from windlass import core
from windlass.core.keras import TrialCallback


def points(count: int, seed: int) -> tuple[Any, Any]:
    kinds = np.arange(count) % 4
    noise = np.random.default_rng(seed).normal(size=(count, 16))
    return (np.eye(4, 16)[kinds] * 3 + noise).astype("float32"), kinds


def main() -> None:
    logging.basicConfig(level=logging.INFO)
    keras.utils.set_random_seed(7)
    layers = [keras.layers.Dense(32, "relu"), keras.layers.Dense(4, "softmax")]
    model = keras.Sequential([keras.Input((16,)), *layers])
    model.compile(keras.optimizers.SGD(0.05, 0.9), "sparse_categorical_crossentropy")
    with core.init() as context:
        callback = TrialCallback(context, report_every=4)
        model.fit(
            *points(128, 1),
            validation_data=points(64, 2),
            batch_size=16,
            epochs=5,
            shuffle=False,
            verbose=2,
            initial_epoch=callback.initial_epoch,
            callbacks=[callback],
        )


if __name__ == "__main__":
    main()
