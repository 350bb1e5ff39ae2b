"""The same Trial by the published Trainer."""

import logging

import determined
from determined import pytorch
from model import DigitsTrial


def main() -> None:
    logging.basicConfig(level=logging.INFO, format=determined.LOG_FORMAT)
    info = determined.get_cluster_info()
    assert info is not None
    assert info.trial is not None
    with pytorch.init(hparams=info.trial.hparams, exp_conf=info.trial._config) as context:
        trainer = pytorch.Trainer(DigitsTrial(context), context)
        trainer.fit(
            max_length=pytorch.Batch(40),
            checkpoint_period=pytorch.Batch(8),
            validation_period=pytorch.Batch(20),
            reporting_period=pytorch.Batch(4),
            latest_checkpoint=info.latest_checkpoint,
        )


if __name__ == "__main__":
    main()
