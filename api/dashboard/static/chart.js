// Charts, drawn by uPlot in the colours of the style sheet.

/* global uPlot */

const charts = new Set();
const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => charts.forEach((c) => c.draw()));

// color is the value of a custom property of the style sheet.
export const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const font = "12px system-ui, sans-serif";

// A Chart is a uPlot in an element of the page's width. options is called for each drawing
// anew, so that it can read colours; data may be set at any time.
export class Chart {
  constructor(height, options) {
    this.height = height;
    this.options = options;
    this.data = null;
    this.plot = null;
    this.plotNode = document.createElement("div");
    this.readout = document.createElement("p");
    this.readout.className = "readout";
    this.readout.setAttribute("aria-hidden", "true");
    this.node = document.createElement("div");
    this.node.className = "chart";
    this.node.append(this.readout, this.plotNode);
    this.plotNode.setAttribute("role", "img");
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.node);
    charts.add(this);
  }

  // label says for those who do not see the chart what it shows.
  label(text) {
    if (this.plotNode.getAttribute("aria-label") !== text) this.plotNode.setAttribute("aria-label", text);
  }

  set(data) {
    const grew = this.data && this.data.length === data.length && this.plot;
    this.data = data;
    if (grew) this.plot.setData(data);
    else this.draw();
  }

  get width() {
    return Math.floor(this.node.clientWidth);
  }

  resize() {
    if (this.width === 0) return;
    if (!this.plot) this.draw();
    else if (this.plot.width !== this.width) this.plot.setSize({ width: this.width, height: this.height });
  }

  draw() {
    if (!this.data || this.width === 0) return;
    this.plot?.destroy();
    const options = this.options();
    const readout = options.readout;
    delete options.readout;
    options.hooks = {
      ...options.hooks,
      setCursor: [(u) => {
        this.readout.textContent = u.cursor.idx === null || u.cursor.idx === undefined ? "" : readout(u, u.cursor.idx);
      }],
    };
    this.plot = new uPlot({
      width: this.width, height: this.height, legend: { show: false }, padding: [10, 8, 0, 0],
      ...options,
      cursor: { points: { size: 7 }, drag: { x: false, y: false }, ...options.cursor },
    }, this.data, this.plotNode);
  }

  // remove takes the chart away for good.
  remove() {
    this.observer.disconnect();
    charts.delete(this);
    this.plot?.destroy();
    this.node.remove();
  }
}

// axis is one in the page's colours.
export function axis(more = {}) {
  const line = color("--grid");
  return {
    stroke: color("--muted"), font, labelFont: font, labelGap: 0,
    grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 },
    ...more,
  };
}

// timeAxis is the axis of moments, in seconds since 1970, on a clock of 24 hours.
export function timeAxis() {
  const two = (n) => String(n).padStart(2, "0");
  return axis({
    space: 64, size: 30,
    values: (u, ticks, _, __, step) => ticks.map((t) => {
      const d = new Date(1000 * t);
      return `${two(d.getHours())}:${two(d.getMinutes())}${step < 60 ? `:${two(d.getSeconds())}` : ""}`;
    }),
  });
}

// markers draws vertical lines at values of x: {at, text, color, dashed}.
export function markers(all) {
  return (u) => {
    const { ctx } = u;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.font = `600 ${11 * ratio}px system-ui, sans-serif`;
    all().forEach((m, i) => {
      const x = Math.round(u.valToPos(m.at, "x", true));
      if (x < u.bbox.left - 1 || x > u.bbox.left + u.bbox.width + 1) return;
      ctx.strokeStyle = ctx.fillStyle = m.color;
      ctx.lineWidth = 2 * ratio;
      ctx.setLineDash(m.dashed ? [4 * ratio, 4 * ratio] : []);
      ctx.beginPath();
      ctx.moveTo(x, u.bbox.top);
      ctx.lineTo(x, u.bbox.top + u.bbox.height);
      ctx.stroke();
      const width = ctx.measureText(m.text).width;
      const right = x + 5 * ratio + width < u.bbox.left + u.bbox.width;
      ctx.textAlign = right ? "left" : "right";
      ctx.textBaseline = "top";
      ctx.fillText(m.text, right ? x + 5 * ratio : x - 5 * ratio, u.bbox.top + (4 + 15 * i) * ratio);
    });
    ctx.restore();
  };
}
