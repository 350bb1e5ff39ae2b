"""A Hugging Face Trainer on sentences of numbers that are made here: of which half of the vocabulary are they?"""

import logging

import torch
import transformers
from transformers import BertConfig, BertForSequenceClassification, TrainingArguments

from windlass import core
from windlass.core.transformers import TrialCallback

WORDS = 32
LENGTH = 8


def sentences(count: int, seed: int) -> list[dict[str, torch.Tensor]]:
    numbers = torch.Generator().manual_seed(seed)
    kinds = torch.arange(count) % 2
    words = torch.randint(0, WORDS // 2, (count, LENGTH), generator=numbers)
    words += WORDS // 2 * kinds[:, None]
    return [{"input_ids": w, "labels": k} for w, k in zip(words, kinds, strict=True)]


def main() -> None:
    logging.basicConfig(level=logging.INFO)
    transformers.set_seed(7)
    often = {"logging_steps": 4, "save_steps": 8, "eval_strategy": "steps", "eval_steps": 20}
    args = TrainingArguments("out", max_steps=40, learning_rate=0.01, report_to=[], **often)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = BertForSequenceClassification(BertConfig(vocab_size=WORDS, num_labels=2, **sizes))
    with core.init() as context:
        callback = TrialCallback(context)
        data = {"train_dataset": sentences(640, 1), "eval_dataset": sentences(64, 2)}
        trainer = transformers.Trainer(model, args, callbacks=[callback], **data)
        trainer.train(resume_from_checkpoint=callback.latest_checkpoint(args.output_dir))


if __name__ == "__main__":
    main()
