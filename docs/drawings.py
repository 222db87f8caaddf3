#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the figures of how-it-works.md:  docs/drawings.py [FOLDER]

Writes process-tree.svg, phase.svg and reducers.svg, by default beside this file. Same bytes every time; the test of the guide
compares them with those that are committed.
"""

import html
import pathlib
import sys

STYLE = """
  .box { fill: #f6f8fa; stroke: #57616c; rx: 5; } .strong { fill: #dbeafe; stroke: #2563c9; }
  .warm { fill: #fdebdc; stroke: #c2570c; } .green { fill: #dcf3e3; stroke: #17803d; }
  .arrow { stroke: #57616c; stroke-width: 1.5; fill: none; marker-end: url(#head); }
  .dashed { stroke-dasharray: 5 4; }
  text { font: 13px system-ui, 'DejaVu Sans', sans-serif; fill: #1b1f24; text-anchor: middle; }
  .small { font-size: 11.5px; fill: #57616c; } .title { font-weight: 600; }
"""


class Drawing:
    def __init__(self, width, height, about):
        self.size = (width, height)
        self.parts = [
            f'<title>{html.escape(about)}</title>',
            f"<style>{STYLE}</style>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="#57616c"/></marker></defs>',
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        ]

    def box(self, x, y, width, lines, kind="", height=None):
        """A box with its upper left corner at (x, y); the first line is its title."""
        height = height or 18 + 17 * len(lines)
        self.parts.append(f'<rect class="box {kind}" x="{x}" y="{y}" width="{width}" height="{height}"/>')
        for i, line in enumerate(lines):
            style = "title" if i == 0 else "small"
            self.text(x + width / 2, y + 23 + 17 * i, line, style)

    def text(self, x, y, line, style="small"):
        self.parts.append(f'<text class="{style}" x="{x:g}" y="{y:g}">{html.escape(line)}</text>')

    def arrow(self, *points, dashed=False):
        way = "L".join(f"{x:g} {y:g}" for x, y in points)
        self.parts.append(f'<path class="arrow{" dashed" if dashed else ""}" d="M{way}"/>')

    def write(self, file):
        width, height = self.size
        body = "\n".join(self.parts)
        file.write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img">\n{body}\n</svg>\n'
        )


def process_tree():
    d = Drawing(760, 330, "One launcher, a nursery that forks the ranks and exits, and the ranks")
    d.box(20, 20, 250, ["gantrain (launcher)", "reads the command, loads no LibTorch", "watches, restarts, reports"], "strong")
    d.box(450, 20, 290, ["nursery", "loads the trainer library once,", "forks the ranks, exits"], "")
    d.arrow((270, 55), (450, 55))
    d.text(360, 48, "starts")
    for i in range(3):
        x = 190 + 190 * i
        name = f"rank {i}" if i < 2 else "rank N-1"
        d.box(x, 150, 170, [name, f"device {i}" if i < 2 else "device N-1", "trains"], "green")
        d.arrow((595, 89), (595, 118), (x + 85, 118), (x + 85, 150), dashed=True)
    d.arrow((145, 89), (145, 185), (190, 185))
    d.text(98, 140, "waits for,")
    d.text(98, 155, "signals, ends")
    d.text(650, 110, "forks, then exits")
    d.box(190, 250, 550, ["process group (NCCL or gloo)", "gradients, running statistics, requests to save or stop"], "warm")
    for i in range(3):
        x = 275 + 190 * i
        d.arrow((x, 250), (x, 219))
        d.arrow((x, 219), (x, 250))
    d.text(95, 280, "other nodes: one")
    d.text(95, 296, "launcher each")
    return d


def phase():
    d = Drawing(760, 390, "What happens in one iteration: phases of D and G, each with loss, backward, all-reduce and step")
    d.box(20, 20, 150, ["real pictures", "this rank's share", "of the batch"], "")
    d.box(20, 110, 150, ["key", "seed, iteration,", "phase, samples"], "")
    d.box(230, 20, 150, ["phase D", "loss of D on real", "and generated"], "strong", 74)
    d.box(230, 110, 150, ["phase G", "loss of G through", "D's scores"], "strong", 74)
    d.text(305, 206, "every k-th iteration also penalties:")
    d.text(305, 222, "R1, path length (lazy)")
    d.arrow((170, 55), (230, 55))
    d.arrow((170, 145), (230, 145))
    d.arrow((170, 130), (200, 130), (200, 75), (230, 75))
    d.box(440, 20, 140, ["backward", "micro-batch by", "micro-batch"], "")
    d.box(600, 20, 140, ["all-reduce", "mean of gradients", "over ranks"], "warm")
    d.box(600, 125, 140, ["optimizer step", "of this player alone;", "the other is frozen"], "green")
    d.arrow((380, 55), (440, 55))
    d.arrow((380, 145), (410, 145), (410, 70), (440, 70))
    d.arrow((580, 55), (600, 55))
    d.arrow((670, 89), (670, 125))
    d.text(505, 155, "not finite? the step is")
    d.text(505, 171, "left out, on all ranks")
    d.text(380, 262, "after the last phase of the iteration, once", "title")
    d.box(20, 280, 230, ["one small all-reduce", "batch norm statistics, mean of w,", "signs for ADA, requests"], "warm")
    d.box(265, 280, 230, ["average (EMA)", "of the generator, by the", "images seen"], "green")
    d.box(510, 280, 230, ["at a tick", "losses are read, samples, metrics,", "states; the only waits"], "")
    d.arrow((250, 315), (265, 315))
    d.arrow((495, 315), (510, 315))
    return d


def reducers():
    d = Drawing(760, 330, "Gradients travel in buckets while the backward pass goes on, one reducer for each network")
    d.text(150, 30, "backward pass of D's loss", "title")
    for i, name in enumerate(["last layer", "...", "first layer"]):
        d.box(20 + 92 * i, 45, 86, [name], "strong")
    d.arrow((20, 100), (290, 100))
    d.text(158, 118, "gradients become ready in this order")
    d.text(520, 30, "reducer of D", "title")
    d.box(400, 45, 110, ["bucket 0", "1 MB, first"], "warm")
    d.box(520, 45, 110, ["bucket 1", "25 MB"], "warm")
    d.box(640, 45, 100, ["bucket 2", "25 MB"], "warm")
    d.arrow((294, 70), (400, 70))
    d.text(347, 62, "fills")
    d.text(565, 122, "a full bucket is sent at once, during the backward pass")
    d.text(150, 190, "backward pass of G's loss", "title")
    for i, name in enumerate(["D, frozen", "G's layers"]):
        d.box(40 + 120 * i, 205, 110, [name], "" if i == 0 else "strong")
    d.text(158, 262, "passes through D, asks for no gradient there")
    d.text(520, 190, "reducer of G", "title")
    d.box(400, 205, 110, ["bucket 0"], "warm")
    d.box(520, 205, 110, ["bucket 1"], "warm")
    d.arrow((270, 222), (400, 222))
    d.text(565, 262, "D's reducer rests: nothing of D is waited for")
    d.text(380, 305, "--ddp-mode dynamic. wrapper arms a reducer in the forward pass, as DistributedDataParallel does; flat sends all at the end.")
    return d


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    for name, drawing in (("process-tree", process_tree()), ("phase", phase()), ("reducers", reducers())):
        drawing.write(folder / f"{name}.svg")


main()
