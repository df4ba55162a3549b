"""Freezing the questions of an evaluation to a file, without a model and without opening a video."""

from pathlib import Path

from actdeny_train.evaluation.plan import Questions
from actdeny_train.evaluation.run import EvaluateRun
from actdeny_train.questions.frozen import write_questions


def freeze(run: EvaluateRun, file: Path) -> int:
    """Write the questions about all clips of the run's split to ``file``, quarantined ones included; return how many there are."""
    data = run.data.build()
    groups = data.all_groups(run.split)
    if run.questions_file is None:
        questions = Questions(run.ask, data.labels, run.seed)
    else:
        questions = Questions.read(Path(run.questions_file), data.labels)
    asked = [question for group in groups for question in questions.about(group)]
    write_questions(file, asked)
    return len(asked)
