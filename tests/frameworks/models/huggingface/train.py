"""A Hugging Face Trainer with the callback of the published package, on sentences of numbers that are made here."""

import logging
import time
from typing import Any

import determined
import torch
import transformers
from determined.transformers import DetCallback
from torch.utils.data import Dataset

WORDS = 32
KINDS = 2
LENGTH = 8
PAUSE_S = 0.1


class Sentences(Dataset[dict[str, Any]]):
    """Of one kind are those whose words are from the first half of the vocabulary."""

    def __init__(self, count: int, seed: int) -> None:
        numbers = torch.Generator().manual_seed(seed)
        self.kinds = torch.arange(count) % KINDS
        half = WORDS // KINDS
        self.words = torch.randint(0, half, (count, LENGTH), generator=numbers)
        self.words += half * self.kinds[:, None]

    def __len__(self) -> int:
        return len(self.kinds)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"input_ids": self.words[index], "labels": self.kinds[index]}


class Slow(transformers.TrainerCallback):  # type: ignore[misc]
    """Slow enough to be interrupted in the middle of the epoch."""

    def on_step_end(self, *_: Any, **__: Any) -> None:
        time.sleep(PAUSE_S)


def main() -> None:
    logging.basicConfig(level=logging.INFO, format=determined.LOG_FORMAT)
    transformers.set_seed(7)
    config = transformers.BertConfig(
        vocab_size=WORDS,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LENGTH,
        num_labels=KINDS,
    )
    args = transformers.TrainingArguments(
        output_dir="out",
        max_steps=40,
        per_device_train_batch_size=16,
        learning_rate=0.01,
        logging_steps=4,
        save_steps=8,
        eval_strategy="steps",
        eval_steps=20,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        seed=7,
    )
    with determined.core.init() as core_context:
        trainer = transformers.Trainer(
            model=transformers.BertForSequenceClassification(config),
            args=args,
            train_dataset=Sentences(640, seed=1),
            eval_dataset=Sentences(64, seed=2),
            callbacks=[DetCallback(core_context, args), Slow()],
        )
        trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)


if __name__ == "__main__":
    main()
