// Charts in the colours of the page. They are made anew when the theme changes.
"use strict";

const Charts = (() => {
  const { el } = Dom;
  const live = new Set();

  const colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  function defaults() {
    Chart.defaults.color = colour("muted");
    Chart.defaults.borderColor = colour("line");
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    Chart.defaults.font.size = 12;
    Chart.defaults.animation = false;
    Chart.defaults.maintainAspectRatio = false;
    Object.assign(Chart.defaults.plugins.tooltip, {
      backgroundColor: colour("tooltip"),
      titleColor: colour("ink"),
      bodyColor: colour("ink"),
      footerColor: colour("muted"),
      borderColor: colour("line"),
      borderWidth: 1,
      padding: 10,
      boxPadding: 4,
      usePointStyle: true,
      footerFont: { weight: "normal" },
    });
    Object.assign(Chart.defaults.plugins.legend, { position: "top", align: "start" });
    Object.assign(Chart.defaults.plugins.legend.labels, {
      usePointStyle: true, pointStyle: "rectRounded", boxWidth: 10, boxHeight: 10, padding: 14,
    });
  }

  // A chart that `configure()` describes: called again whenever colours change. `label` says what it
  // shows to those who do not see it.
  class LiveChart {
    constructor(label, className, configure) {
      this.canvas = el("canvas", { role: "img", "aria-label": label });
      this.element = el("div", { class: `chart ${className}` }, this.canvas);
      this.configure = configure;
      this.chart = null;
      live.add(this);
    }

    draw() {
      if (this.chart) this.chart.destroy();
      this.chart = new Chart(this.canvas, this.configure());
    }

    dispose() {
      if (this.chart) this.chart.destroy();
      live.delete(this);
    }
  }

  function drawAll() {
    defaults();
    for (const chart of live) if (chart.element.isConnected) chart.draw();
  }

  // Puts a chart where `place` is, in place of the one before it.
  function show(place, chart) {
    if (place.current) place.current.dispose();
    place.current = chart;
    Dom.fill(place.node, chart.element);
    defaults();
    chart.draw();
    return chart;
  }
  const placeFor = () => ({ node: el("div"), current: null });

  // ---- what charts draw beside what the library does ----

  // A line across at `level`, with a label behind its end, where the chart has LABEL_ROOM to the right.
  const LABEL_ROOM = 104;
  const levelLine = (level, label) => ({
    id: "levelLine",
    afterDatasetsDraw(chart) {
      const { ctx, chartArea: area, scales: { y } } = chart;
      const at = y.getPixelForValue(level);
      if (at < area.top || at > area.bottom) return;
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = colour("ink");
      ctx.setLineDash([5, 4]);
      ctx.globalAlpha = 0.75;
      ctx.beginPath();
      ctx.moveTo(area.left, at);
      ctx.lineTo(area.right, at);
      ctx.stroke();
      ctx.globalAlpha = 1;
      ctx.font = `11px ${Chart.defaults.font.family}`;
      ctx.fillText(label, area.right + 6, at + 4, LABEL_ROOM - 8);
      ctx.restore();
    },
  });

  // A frame around the chosen bar.
  const chosenBar = (index) => ({
    id: "chosenBar",
    beforeDatasetsDraw(chart) {
      const chosen = index();
      if (chosen === null) return;
      const { ctx, chartArea: area, scales: { x } } = chart;
      const width = (area.right - area.left) / chart.data.labels.length;
      ctx.save();
      ctx.fillStyle = colour("accent");
      ctx.globalAlpha = 0.16;
      ctx.fillRect(x.getPixelForValue(chosen) - width / 2, area.top, width, area.bottom - area.top);
      ctx.restore();
    },
  });

  // Where steps begin; their numbers where there is room.
  const stepMarks = (marks) => ({
    id: "stepMarks",
    afterDatasetsDraw(chart) {
      const { ctx, chartArea: area, scales: { x } } = chart;
      ctx.save();
      ctx.strokeStyle = ctx.fillStyle = colour("muted");
      ctx.font = `11px ${Chart.defaults.font.family}`;
      ctx.globalAlpha = 0.8;
      ctx.setLineDash([2, 3]);
      let free = -Infinity;
      for (const [step, begin, end] of marks) {
        if (begin > x.max || end < x.min) continue;
        const at = Math.max(area.left, x.getPixelForValue(begin));
        if (begin >= x.min) {
          ctx.beginPath();
          ctx.moveTo(at, area.top);
          ctx.lineTo(at, area.bottom);
          ctx.stroke();
        }
        const text = `step ${step}`;
        if (at < free || at + ctx.measureText(text).width > area.right) continue;
        ctx.fillText(text, at + 4, area.top + 11);
        free = at + ctx.measureText(text).width + 16;
      }
      ctx.restore();
    },
  });

  // Dragging over the chart chooses a part of the x axis; `onZoom(min, max)`.
  const dragZoom = (onZoom) => {
    const FEWEST_PIXELS = 5;
    let from = null, to = null;
    return {
      id: "dragZoom",
      afterInit(chart) {
        const canvas = chart.canvas;
        const inside = (event) => {
          const area = chart.chartArea;
          const at = event.clientX - canvas.getBoundingClientRect().left;
          return Math.min(Math.max(at, area.left), area.right);
        };
        chart.dragZoomListeners = {
          pointerdown: (event) => {
            if (event.button !== 0) return;
            from = to = inside(event);
            canvas.setPointerCapture(event.pointerId);
          },
          pointermove: (event) => {
            if (from === null) return;
            to = inside(event);
            chart.draw();
          },
          pointerup: () => {
            const [left, right] = [Math.min(from, to), Math.max(from, to)];
            const chosen = from !== null && right - left >= FEWEST_PIXELS;
            from = to = null;
            const x = chart.scales.x;
            if (chosen) onZoom(x.getValueForPixel(left), x.getValueForPixel(right));
            else chart.draw();
          },
          pointercancel: () => { from = to = null; },
        };
        for (const [name, listener] of Object.entries(chart.dragZoomListeners)) {
          canvas.addEventListener(name, listener);
        }
      },
      beforeDestroy(chart) {
        for (const [name, listener] of Object.entries(chart.dragZoomListeners)) {
          chart.canvas.removeEventListener(name, listener);
        }
      },
      afterDraw(chart) {
        if (from === null || from === to) return;
        const { ctx, chartArea: area } = chart;
        ctx.save();
        ctx.fillStyle = colour("accent");
        ctx.globalAlpha = 0.2;
        ctx.fillRect(Math.min(from, to), area.top, Math.abs(to - from), area.bottom - area.top);
        ctx.restore();
      },
    };
  };

  return { LiveChart, colour, drawAll, defaults, show, placeFor, LABEL_ROOM, levelLine, chosenBar, stepMarks, dragZoom };
})();
