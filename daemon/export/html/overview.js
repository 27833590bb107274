// What one reads first: the verdict, the grade, key figures, findings.
"use strict";

const Overview = (() => {
  const { el, facts } = Dom;

  const GRADES = {
    A: "Every check held.",
    B: "The numbers are right; some detail is missing or less exact.",
    C: "A noticeable part is missing or was disturbed: compare with care.",
    D: "Much is missing, or the window ended before it was complete.",
    "-": "Nothing was recorded.",
  };
  const SHARES = {
    marked: "Events were lost: shares of a whole are of what was kept.",
    withheld: "So much was lost that shares of a whole say nothing: look at times only.",
  };

  function gradeBadge(grade) {
    return el("a", { class: `grade grade-${grade === "-" ? "none" : grade}`, href: "#quality", title: GRADES[grade] }, grade);
  }

  // ---- header ----

  function source(capture) {
    if (capture.imported.source !== "") {
      const by = capture.imported.producer === "" ? "" : `, written by ${capture.imported.producer}`;
      return `Imported from ${capture.imported.source}${by}`;
    }
    const rank = capture.rank >= 0 ? `rank ${capture.rank}, ` : "";
    return `${rank}process ${capture.pid} on ${capture.node || "this node"}`;
  }

  function when(capture) {
    if (capture.start_unix_ms === 0) return "nothing recorded";
    return new Date(capture.start_unix_ms).toISOString().replace("T", " ").slice(0, 19) + " UTC";
  }

  function gpus(capture) {
    const names = new Map();
    for (const device of capture.gpu.devices) names.set(device.name, (names.get(device.name) || 0) + 1);
    return [...names].map(([name, count]) => (count > 1 ? `${count} × ${name}` : name)).join(", ");
  }

  function header(data) {
    const capture = data.capture;
    const chips = [
      [capture.state, capture.state === "COMPLETE" ? "" : "warn"],
      [gpus(capture), ""],
      [capture.gpu.simulated ? "simulated GPU" : "", "warn"],
      [capture.torch_version && `torch ${capture.torch_version}`, ""],
    ].filter(([text]) => text);
    return el("header", { class: "page-head" },
      el("div", {},
        el("h1", {}, capture.name || capture.imported.source || `Capture ${capture.id}`),
        el("p", { class: "muted" }, `${source(capture)} · ${when(capture)} · ${Format.ns(capture.covered_ns)} recorded`),
        el("p", { class: "chips" }, chips.map(([text, kind]) => el("span", { class: `chip ${kind}` }, text)))),
      gradeBadge(data.grade));
  }

  // Where it has to be said before any figure is read.
  function lossNote(data) {
    const text = SHARES[data.shares];
    return text ? el("p", { class: "alert" }, el("strong", {}, text)) : null;
  }

  // ---- key figures ----

  const tile = (label, value, detail) =>
    el("div", { class: "tile" }, el("div", { class: "tile-label" }, label),
      el("div", { class: "tile-value" }, value), el("div", { class: "muted" }, detail));

  function stepTile(data) {
    const bars = rowsOf(data.time[0].steps);
    if (bars.length === 0) return tile("Window", Format.ns(data.capture.covered_ns), "no steps were marked");
    const durations = bars.map((bar) => bar.duration_ns);
    const longest = Math.max(...bars.map((bar) => bar.longest_ns));
    if (data.time[0].step_count === 1) return tile("Step", Format.ns(longest), "one step was recorded");
    return tile("Median step", Format.ns(StepCharts.median(durations)),
      `${Format.count(data.time[0].step_count)} steps, longest ${Format.ns(longest)}`);
  }

  function tiles(data) {
    const time = data.time[0];
    const whole = time.whole;
    const share = (ns) => (Format.saysShares() && whole.kernel_time_ns > 0
      ? Format.share(ns, whole.kernel_time_ns) : Format.ns(ns));
    const list = [stepTile(data)];
    if (time.has_device) {
      list.push(tile("GPU busy", share(whole.busy_ns), `${Format.ns(whole.busy_ns)} of ${Format.ns(whole.kernel_time_ns)}, device ${time.device}`));
      list.push(tile("GPU idle", share(whole.idle_ns), `${Format.ns(whole.host_wait_ns)} waiting for the host`));
      if (whole.communication_ns > 0) {
        list.push(tile("Exposed communication", share(whole.exposed_communication_ns),
          `${Format.ns(whole.overlapped_communication_ns)} of ${Format.ns(whole.communication_ns)} is hidden`));
      }
    }
    const memory = data.memory.find((device) => device.device.startsWith("cuda:")) || data.memory[0];
    if (memory) {
      const capacity = memory.capacity_bytes > 0 ? `of ${Format.bytes(memory.capacity_bytes)}, ` : "";
      list.push(tile("Peak memory", Format.bytes(memory.peak_bytes), `${capacity}allocated on ${memory.device}`));
    }
    const saving = Math.max(0, ...data.findings.map((finding) => finding.saving_ns_per_step));
    if (saving > 0) list.push(tile("Largest saving", Format.ns(saving), "a step, estimated"));
    return el("div", { class: "tiles" }, list);
  }

  // ---- findings ----

  function quantity(unit, value) {
    switch (unit) {
      case "share": return Format.percent(value);
      case "ns": return Format.ns(value);
      case "bytes": return Format.bytes(value);
      case "count": return Format.count(value);
      default: return Format.number(value);
    }
  }

  function evidenceRow(evidence, follow) {
    const name = evidence.kind === "step" && evidence.name === "" ? `step ${evidence.step}` : evidence.name;
    const go = follow(evidence);
    const figures = [
      evidence.count !== null ? `${Format.count(evidence.count)} ×` : "",
      evidence.duration_ns !== null ? Format.ns(evidence.duration_ns) : "",
      evidence.bytes !== null ? Format.bytes(evidence.bytes) : "",
      evidence.start_ns !== null ? `at ${Format.ns(evidence.start_ns)}` : "",
      evidence.step !== null && evidence.kind !== "step" ? `step ${evidence.step}` : "",
      evidence.device !== null ? `device ${evidence.device}` : "",
    ].filter(Boolean).join(" · ");
    return el("li", {},
      go ? el("a", { href: go.href, title: name, onclick: go.act }, name || Format.words(evidence.kind))
        : el("span", { title: name }, name || Format.words(evidence.kind)),
      el("span", { class: "muted" }, [evidence.detail, figures].filter(Boolean).join(" · ")));
  }

  // The weightiest first; beyond a few, the rest is a click away.
  function evidenceList(evidence, follow) {
    const FEW = 5;
    const list = (rows) => el("ul", { class: "evidence" }, rows.map((row) => evidenceRow(row, follow)));
    if (evidence.length === 0) return null;
    if (evidence.length <= FEW + 1) return list(evidence);
    return [list(evidence.slice(0, FEW)),
      el("details", { class: "more" }, el("summary", {}, `${evidence.length - FEW} more`), list(evidence.slice(FEW)))];
  }

  function finding(item, index, follow) {
    const saving = item.saving_ns_per_step > 0
      ? el("span", { class: "saving" }, `saves up to ${Format.ns(item.saving_ns_per_step)} a step`) : null;
    const confidence = `${item.confidence} confidence${item.confidence_reason ? `: ${item.confidence_reason}` : ""}`;
    return el("details", { class: `finding ${item.severity}`, open: index < 3 },
      el("summary", {},
        el("span", { class: `severity ${item.severity}` }, item.severity),
        el("span", { class: "finding-title" }, item.title), saving),
      el("div", { class: "finding-body" },
        el("p", {}, item.measured),
        item.advice ? el("p", { class: "advice" }, item.advice) : null,
        el("p", { class: "muted" }, `${item.rule} · measured ${quantity(item.unit, item.value)}, threshold ${quantity(item.unit, item.threshold)} · ${confidence}`),
        evidenceList(item.evidence, follow)));
  }

  const plural = (count, thing) => `${Format.count(count)} ${thing}${count === 1 ? "" : "s"}`;

  // What the rules that made no finding say.
  function otherRules(data) {
    const list = (rules, text) => rules.map((rule) =>
      el("li", {}, el("span", { title: rule.rule }, rule.title), el("span", { class: "muted" }, text(rule))));
    const passed = data.passed.length === 0 ? null : el("details", {},
      el("summary", {}, `${plural(data.passed.length, "rule")} found nothing`),
      el("ul", { class: "evidence" }, list(data.passed, (rule) =>
        `${quantity(rule.unit, rule.value)}, threshold ${quantity(rule.unit, rule.threshold)}`)));
    const skipped = data.skipped.length === 0 ? null : el("details", {},
      el("summary", {}, `${plural(data.skipped.length, "rule")} could not be looked at`),
      el("ul", { class: "evidence" }, list(data.skipped, (rule) => `needs ${rule.needs}`)));
    return el("div", { class: "rules" }, passed, skipped);
  }

  function findings(data, follow) {
    if (data.findings.length === 0) {
      return [el("p", { class: "empty" }, "Nothing stands out by the rules that could be looked at."), otherRules(data)];
    }
    return [data.findings.map((item, i) => finding(item, i, follow)), otherRules(data)];
  }

  // ---- quality ----

  function quality(data) {
    const { quality_checks: checks, grade, shares, quality_stored: stored } = data;
    const row = (check) => el("li", { class: check.known ? `check-${check.grade}` : "check-unknown" },
      el("span", { class: "mark", "aria-hidden": "true" }, !check.known ? "?" : check.grade === "A" ? "✓" : "!"),
      el("span", {}, check.sentence || Format.words(check.check)),
      el("span", { class: "muted" }, check.known && check.grade !== "A" ? `at best ${check.grade}` : ""));
    return [
      el("p", {}, el("strong", {}, `Grade ${grade}. `), GRADES[grade] || "", " ", SHARES[shares] || "",
        stored || grade === "-" ? "" : " Graded when this page was made: an older profd stored no grade."),
      el("ul", { class: "checks" }, checks.map(row)),
    ];
  }

  function about(data) {
    const capture = data.capture;
    const pairs = (object) => Object.entries(object).map(([name, count]) => `${Format.words(name)}: ${Format.count(count)}`).join(", ");
    return facts([
      ["Capture", capture.id],
      ["Recorded", when(capture)],
      ["Ended by", Format.words(capture.ended_by)],
      ["Steps", capture.asked_steps > 0 ? `${capture.covered_steps} of ${capture.asked_steps} asked for` : Format.count(capture.covered_steps)],
      ["Window", Format.ns(capture.covered_ns)],
      ["Events kept", Format.count(capture.event_count)],
      ["Events lost", pairs(capture.drops) || (capture.imported.source ? "not told by the file" : "none")],
      ["Not understood", pairs(capture.imported.not_understood)],
      ["Clock error", capture.imported.source ? (capture.imported.time_unit_ns > 1 ? "times are whole microseconds" : null) : `at most ${Format.ns(capture.clock_error_ns)}`],
      ["GPU recording", Format.words(capture.gpu.outcome) + (capture.gpu.problem ? `: ${capture.gpu.problem}` : "")],
      ["Command", capture.command],
      ["Job", capture.job],
      ["Made by", `profd ${data.profd_version}`],
    ]);
  }

  return { header, lossNote, tiles, findings, quality, about };
})();
