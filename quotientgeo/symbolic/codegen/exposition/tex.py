"""A derivation page as a LaTeX document, for the appendix of a paper: the same text, sentence by sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token

_HEAD = r"""\documentclass[10pt]{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage[a4paper,margin=25mm]{geometry}
\usepackage{amsmath,amssymb,array,longtable}
\allowdisplaybreaks
\setlength{\emergencystretch}{3em}
\setlength{\parindent}{0pt}
\setlength{\parskip}{4pt}
\begin{document}
"""
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
}
_MATH = re.compile(r"\$([^$]+)\$")
_HELD = re.compile("\ue000(\\d+)\ue001")  # stands for a formula while Markdown is read
_WIDTHS = {2: (4.0, 10.0), 3: (3.0, 8.0, 3.0), 5: (3.1, 4.3, 2.4, 1.4, 3.0)}  # cm, of the columns of a table
_HEADINGS = {"h1": "section*", "h2": "subsection*", "h3": "subsubsection*"}


def tex_document(page: str) -> str:
    """The LaTeX source of a page of ``derivation_page``: amsmath and longtable are all that it needs."""
    formulas: list[str] = []

    def hold(match: re.Match[str]) -> str:
        formulas.append(match.group(1))
        return f"\ue000{len(formulas) - 1}\ue001"

    blocks = re.split(r"(```math\n.*?```)", page, flags=re.DOTALL)
    text = "".join(block if block.startswith("```math") else _MATH.sub(hold, block) for block in blocks)
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    body = _Writer().blocks(tokens)
    return f"{_HEAD}{_HELD.sub(lambda match: f'${formulas[int(match.group(1))]}$', body)}\n\\end{{document}}\n"


class _Writer:
    """Tokens to LaTeX, in their order."""

    def blocks(self, tokens: Sequence[Token]) -> str:
        out: list[str] = []
        columns = 0
        for token in tokens:
            match token.type:
                case "heading_open":
                    out.append(f"\n\\{_HEADINGS.get(token.tag, 'paragraph*')}{{")
                case "heading_close":
                    out.append("}\n")
                case "inline":
                    out.append(self.inline(token.children or []))
                case "paragraph_open" | "paragraph_close":
                    out.append("" if token.hidden else "\n")
                case "fence":
                    out.append(_display(token.content))
                case "bullet_list_open" | "bullet_list_close":
                    out.append(f"\n\\{'begin' if token.nesting == 1 else 'end'}{{itemize}}\n")
                case "list_item_open":
                    out.append("\\item ")
                case "list_item_close":
                    out.append("\n")
                case "table_open":
                    columns = _columns(tokens, tokens.index(token))
                    out.append(f"\n{{\\footnotesize\n\\begin{{longtable}}{{{_format(columns)}}}\n\\hline\n")
                case "table_close":
                    out.append("\\hline\n\\end{longtable}}\n")
                case "thead_close":
                    out.append("\\hline\n\\endhead\n")
                case "tr_close":
                    while out and out[-1] in (" & ", ""):
                        out.pop()
                    out.append(" \\\\\n")
                case "th_close" | "td_close":
                    out.append(" & ")
        return "".join(out)

    def inline(self, tokens: Sequence[Token]) -> str:
        out: list[str] = []
        for token in tokens:
            match token.type:
                case "text":
                    out.append(_escaped(token.content))
                case "code_inline":
                    out.append(f"\\texttt{{{_escaped(token.content)}}}")
                case "softbreak" | "hardbreak":
                    out.append("\n")
                case "em_open":
                    out.append("\\emph{")
                case "strong_open":
                    out.append("\\textbf{")
                case "em_close" | "strong_close":
                    out.append("}")
        return "".join(out)


def _escaped(text: str) -> str:
    return "".join(_SPECIAL.get(c, c) for c in text)


def _display(formula: str) -> str:
    """An aligned block may be broken over pages, any other formula may not."""
    formula = formula.strip()
    inner = re.fullmatch(r"\\begin\{aligned\}\n(.*)\n\\end\{aligned\}", formula, flags=re.DOTALL)
    if inner is not None and r"\begin{aligned}" not in inner.group(1):
        return f"\\begin{{align*}}\n{inner.group(1)}\n\\end{{align*}}\n"
    return f"\\[\n{formula}\n\\]\n"


def _columns(tokens: Sequence[Token], start: int) -> int:
    end = next(i for i in range(start, len(tokens)) if tokens[i].type == "thead_close")
    return sum(token.type == "th_open" for token in tokens[start:end])


def _format(columns: int) -> str:
    widths = _WIDTHS.get(columns, (14.0 / columns,) * columns)
    return "".join(f">{{\\raggedright\\arraybackslash}}p{{{width}cm}}" for width in widths)
