# SPDX-License-Identifier: GPL-2.0
"""What a measurement came to, as a file for programs and as a page for people."""

import html
import json

# Of a pair, in the order of the pairs: dark enough for both backgrounds, told apart without colour vision, too.
COLOURS = ["#7f7f7f", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]
WIDTH, LABEL, BAR, GAP = 760, 190, 15, 8

# Plots: a heading, what it explains, and which number of a `Summary` it shows as a ratio to the first pair.
PLOTS = [
    ("Speed", "By the clock of the emulated machine; longer is better.", "rate", "speed"),
    ("Instructions", "Of Xen, kernels and modules for one of the unit; shorter is better.",
     "instructions", "ratio"),
    ("Events", "Interrupts in both domains for one of the unit; shorter is better.", "events", "ratio"),
    ("Hypercalls", "For one of the unit; shorter is better.", "hypercalls", "ratio"),
]

STYLE = """
body { font: 15px/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse; width: 100% } td, th { padding: .15em .6em; text-align: right }
td:first-child, th:first-child, td:nth-child(2), th:nth-child(2) { text-align: left }
tr.first td { border-top: 1px solid #999 } svg text { font: 12px sans-serif; fill: currentColor }
:root { color-scheme: light dark }
"""


def plot(rows, pairs, key):
    """Returns a picture of bars, one per workload and pair, in units of the first pair's."""
    shown = []
    for workload, _, by_pair in rows:
        base = by_pair[pairs[0]].get(key)
        if base:
            shown.append((workload, [(pair, by_pair[pair][key] / base, by_pair[pair][key])
                                     for pair in pairs if by_pair.get(pair, {}).get(key) is not None]))
    if not shown:
        return ""
    most = max(ratio for _, bars in shown for _, ratio, _ in bars)
    scale = (WIDTH - LABEL - 150) / most
    lines, top = [], 0
    for workload, bars in shown:
        lines.append(f'<text x="0" y="{top + BAR - 3}">{html.escape(workload)}</text>')
        for pair, ratio, value in bars:
            colour = COLOURS[pairs.index(pair) % len(COLOURS)]
            length = max(1.0, ratio * scale)
            lines.append(f'<rect x="{LABEL}" y="{top}" width="{length:.1f}" height="{BAR - 2}" fill="{colour}"/>'
                         f'<text x="{LABEL + length + 5:.1f}" y="{top + BAR - 3}">{ratio:.2f}× '
                         f'({value:.4g}) {html.escape(pair)}</text>')
            top += BAR
        top += GAP
    one = LABEL + scale
    lines.append(f'<line x1="{one:.1f}" x2="{one:.1f}" y1="0" y2="{top}" stroke="currentColor" '
                 'stroke-dasharray="3 3"/>')
    return f'<svg viewBox="0 0 {WIDTH} {top}" role="img">{"".join(lines)}</svg>'


def table(rows, pairs):
    """Returns all numbers as a table."""
    heads = ["workload", "pair", "per second", "spread", "speed", "instructions", "ratio", "hypercalls",
             "events guest", "events dom0", "p50 us", "p99 us"]
    lines = ["<tr>" + "".join(f"<th>{head}</th>" for head in heads) + "</tr>"]
    for workload, unit, by_pair in rows:
        base = by_pair[pairs[0]]
        for pair in (pair for pair in pairs if pair in by_pair):
            one = by_pair[pair]
            cells = [f"{workload} ({unit})" if pair == pairs[0] else "", pair,
                     f"{one['rate']:.0f}", f"{one['spread']:.0%}", f"{one['rate'] / base['rate']:.2f}×"]
            if one.get("instructions") is not None:
                cells += [f"{one['instructions']:.0f}", f"{one['instructions'] / base['instructions']:.2f}×",
                          f"{one['hypercalls']:.2f}"]
            else:
                cells += ["", "", ""]
            cells += [f"{one['events_guest']:.2f}", f"{one['events_dom0']:.2f}",
                      *(f"{one[key]:.0f}" if key in one else "" for key in ("p50_us", "p99_us"))]
            kind = ' class="first"' if pair == pairs[0] else ""
            lines.append(f"<tr{kind}>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    return f"<table>{''.join(lines)}</table>"


def page(title, about, rows, pairs):
    """Returns a page that needs no other file."""
    parts = [f"<h1>{html.escape(title)}</h1>",
             "<p>" + "<br>".join(f"{html.escape(key)}: {html.escape(str(value))}"
                                 for key, value in about.items()) + "</p>"]
    for heading, text, key, _ in PLOTS:
        picture = plot(rows, pairs, key)
        if picture:
            parts.append(f"<h2>{heading}</h2><p>{text} In units of {html.escape(pairs[0])}, and in "
                         f"brackets as measured.</p>{picture}")
    parts.append("<h2>All numbers</h2><p>Medians over the rounds; the spread of speed is that between the fastest "
                 f"and the slowest round.</p>{table(rows, pairs)}")
    return (f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
            f"<style>{STYLE}</style></head><body>{''.join(parts)}</body></html>\n")


def write(folder, title, about, rows, pairs):
    """Writes result.json and report.html to `folder`; returns the latter."""
    (folder / "result.json").write_text(json.dumps(
        {"title": title, "about": about, "pairs": pairs,
         "workloads": [{"name": name, "unit": unit, "pairs": by_pair} for name, unit, by_pair in rows]},
        indent=1) + "\n")
    report = folder / "report.html"
    report.write_text(page(title, about, rows, pairs))
    return report
