"""Tables in Markdown and LaTeX, to the letter."""

import pytest

from actdeny_train.metrics.estimates import Estimate
from actdeny_train.report.cells import Footnotes
from actdeny_train.report.tables import Column, Content, Table, is_name, to_latex, to_markdown, write_content

TABLE = Table(
    "small-table",
    "Small_table",
    "Percent & more.",
    (
        Column("run", "run", "text"),
        Column("hm", "HM"),
        Column("change", "change", "points"),
        Column("d_prime", "d′", "number"),
        Column("p", "p", "p"),
        Column("refusal", "refusal", "text"),
    ),
    (
        ("a|b_<c> 50%", Estimate(0.515, 0.498, 0.532, 3549), Estimate(-0.03, -0.06, 0.01, 9), 1.25, 0.0001, 1200),
        (
            "[x](y)",
            Estimate(None, None, None, 0, "no clips"),
            Estimate(0.5, None, None, 4, "one source"),
            None,
            0.04,
            0,
        ),
    ),
    ("A remark.",),
)


def test_markdown() -> None:
    assert to_markdown([TABLE]) == (
        "## Small\\_table\n"
        "\n"
        "| run | HM | change | d′ | p | refusal |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: |\n"
        "| a\\|b\\_\\<c\\> 50% | 51.5 [49.8, 53.2] (3,549) | -3.0 [-6.0, +1.0] (9) | 1.25 | \\< 0.001 | 1,200 |\n"
        "| [x\\](y) | –¹ (0) | +50.0² – (4) | – | 0.040 | 0 |\n"
        "\n"
        "Percent & more.  \n"
        "A remark.  \n"
        "¹ no clips  \n"
        "² one source\n"
    )


def test_latex() -> None:
    assert to_latex([TABLE]) == "\n".join(
        [
            r"% Needs \usepackage{booktabs}.",
            r"\begin{table*}",
            r"\centering\footnotesize\setlength{\tabcolsep}{4pt}",
            r"\caption{Small\_table. Percent \& more. A remark. \textsuperscript{1} no clips \textsuperscript{2} one source}",
            r"\label{tab:small-table}",
            r"\begin{tabular}{lrrrrr}",
            r"\toprule",
            r"run & HM & change & d$'$ & p & refusal \\",
            r"\midrule",
            r"a|b\_\textless{}c\textgreater{} 50\% & "
            r"\begin{tabular}[t]{@{}r@{}}51.5 (3,549)\\[-2pt]{\scriptsize {[}49.8, 53.2]}\end{tabular} & "
            r"\begin{tabular}[t]{@{}r@{}}$-$3.0 (9)\\[-2pt]{\scriptsize {[}$-$6.0, +1.0]}\end{tabular} & "
            r"1.25 & \textless{} 0.001 & 1,200 \\[2pt]",
            r"{[}x](y) & --\textsuperscript{1} (0) & "
            r"\begin{tabular}[t]{@{}r@{}}+50.0\textsuperscript{2} (4)\\[-2pt]{\scriptsize --}\end{tabular} & -- & 0.040 & 0 \\[2pt]",
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table*}",
            "",
        ]
    )


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        (r"a\b", r"a\textbackslash{}b"),
        ("{x}^2~$", r"\{x\}\textasciicircum{}2\textasciitilde{}\$"),
        ("runs-2", "runs-2"),  # a hyphen of a name is no minus
        ("line\nbreak", "line break"),
    ],
)
def test_names_in_latex(text: str, escaped: str) -> None:
    made = to_latex([Table("k", text, "", (Column("a", "a", "text"),), (("x",),))])
    assert rf"\caption{{{escaped}. }}" in made


@pytest.mark.parametrize(
    ("content", "unit", "text"),
    [
        (None, "percent", "–"),
        ("word", "text", "word"),
        (1234, "text", "1,234"),
        (1234.0, "text", "1,234.0"),
        (0.5, "percent", "50.0"),
        (0.0004, "p", "< 0.001"),
        (0.0006, "p", "0.001"),
        (1.0, "p", "1.000"),
        (-0.005, "points", "-0.5"),
    ],
)
def test_contents(content: Content, unit: str, text: str) -> None:
    assert write_content(content, Column("c", "c", unit), Footnotes()) == text  # type: ignore[arg-type]


def test_columns_of_words_and_of_numbers() -> None:
    assert [is_name(TABLE, i) for i in range(6)] == [True, False, False, False, False, False]
