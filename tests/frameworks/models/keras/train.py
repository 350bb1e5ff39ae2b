"""Keras with the callback of the published package, on points that are made here."""

import logging
import time
from typing import Any

import determined
import numpy as np
from determined.keras import DeterminedCallback, TensorBoard
from tensorflow import keras

FEATURES = 16
KINDS = 4
EPOCHS = 5
PAUSE_S = 0.1


def points(count: int, seed: int) -> tuple[Any, Any]:
    """Around the centre of their kind."""
    numbers = np.random.default_rng(seed)
    kinds = np.arange(count) % KINDS
    centres = np.eye(KINDS, FEATURES) * 3
    return (centres[kinds] + numbers.normal(size=(count, FEATURES))).astype("float32"), kinds


class Slow(keras.callbacks.Callback):  # type: ignore[misc]
    """Slow enough to be interrupted in the middle of an epoch."""

    def on_train_batch_end(self, *_: Any, **__: Any) -> None:
        time.sleep(PAUSE_S)


def main() -> None:
    logging.basicConfig(level=logging.INFO, format=determined.LOG_FORMAT)
    info = determined.get_cluster_info()
    assert info is not None
    keras.utils.set_random_seed(7)
    model = keras.Sequential(
        [keras.layers.Dense(32, activation="relu"), keras.layers.Dense(KINDS, activation="softmax")]
    )
    model.build((None, FEATURES))
    model.compile(keras.optimizers.SGD(0.05), "sparse_categorical_crossentropy", ["accuracy"])
    with determined.core.init() as core_context:
        callback = DeterminedCallback(
            core_context,
            checkpoint=info.latest_checkpoint,
            continue_id=info.trial.trial_id,
            train_metrics_report_period=4,
        )
        model.fit(
            *points(128, seed=1),
            validation_data=points(64, seed=2),
            batch_size=16,
            epochs=EPOCHS,
            shuffle=False,
            verbose=2,
            callbacks=[callback, Slow(), TensorBoard(core_context)],
        )


if __name__ == "__main__":
    main()
