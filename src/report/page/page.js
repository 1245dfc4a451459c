'use strict';
// Draws the plots of the page from its JSON.  All text becomes text nodes, so
// that no data can become markup.
(() => {
const data = JSON.parse(document.getElementById('data').textContent);
const svgSpace = document.querySelector('svg').namespaceURI;

// Adds an element to `parent`; children of an SVG element are SVG as well.
const add = (parent, tag, attributes = {}, text = '') => {
  const space = tag === 'svg' ? svgSpace : parent.namespaceURI;
  const element = document.createElementNS(space, tag);
  for (const [name, value] of Object.entries(attributes))
    element.setAttribute(name, value);
  element.textContent = text;
  parent.append(element);
  return element;
};

const digits = value => String(Number(value.toPrecision(4)));
const px = value => value.toFixed(1);
const interval = ({gain, gain_low, gain_high, rounds, is_auto}) => gain.toFixed(3) +
  (is_auto ? '' : gain_high === null
    ? (rounds < 2 ? ' (one round)' : ' (no interval)')
    : ` (${gain_low.toFixed(3)} to ${gain_high.toFixed(3)})`);
const pairName = ran => ran.kernel ||
  (ran.algorithm ? ran.algorithm + '/' + ran.protocol : '-');
const ranName = ran => pairName(ran) +
  (ran.algorithm && ran.channels && !ran.kernel ? '/' + ran.channels : '');

// ---- axes ----

// The values from `min` to `max` lie at the places from `from` to `to`.
const axis = (min, max, from, to, log) => ({min, max, at: value => from +
  (to - from) * (log ? Math.log(value / min) / Math.log(max / min)
                     : (value - min) / (max - min))});

// Multiples of 1, 2 or 5 times a power of ten; at most seven.
const linearTicks = ({min, max}) => {
  const unit = 10 ** Math.floor(Math.log10((max - min) / 6));
  const step = unit * [1, 2, 5, 10].find(k => (max - min) / (k * unit) <= 6);
  const ticks = [];
  for (let i = Math.ceil(min / step - 1e-9); i * step <= max + 1e-9 * step; i++)
    ticks.push(Number((i * step).toPrecision(12)));
  return ticks;
};

// Powers of ten, and 2 and 5 times these where there are few.
const logTicks = ({min, max}) => {
  const ticks = [];
  for (let i = Math.floor(Math.log10(min)); 10 ** i <= max; i++)
    for (const mark of max / min <= 1000 ? [1, 2, 5] : [1])
      ticks.push(Number((mark * 10 ** i).toPrecision(12)));
  return ticks.filter(tick => tick >= min && tick <= max);
};

// Powers of two, at most nine.
const sizeTicks = ({min, max}) => {
  const first = Math.ceil(Math.log2(min) - 1e-9);
  const last = Math.floor(Math.log2(max) + 1e-9);
  const step = Math.floor((last - first) / 8) + 1;
  const ticks = [];
  for (let i = Math.ceil(first / step) * step; i <= last; i += step)
    ticks.push(2 ** i);
  return ticks;
};

const sizeName = bytes => {
  const unit = Math.max(0, Math.min(3, Math.floor(Math.log2(bytes) / 10)));
  return digits(bytes / 1024 ** unit) + ['', 'K', 'M', 'G'][unit];
};

// ---- figures ----

const WIDTH = 680, LEFT = 62, RIGHT = 588, TOP = 14;

// A figure with a caption, a legend of [class, text] and an empty SVG.
const addFigure = (parent, caption, label, legend, height) => {
  const figure = add(parent, 'figure', {class: 'plot'});
  const head = add(figure, 'figcaption');
  add(head, 'b', {}, caption);
  const keys = add(head, 'span', {class: 'legend'});
  for (const [style, text] of legend) {
    const key = add(keys, 'span', {class: 'key'});
    add(key, 'i', {class: style});
    key.append(text);
  }
  const svg = add(figure, 'svg', {viewBox: `0 0 ${WIDTH} ${height}`,
    role: 'img', 'aria-label': label});
  return {figure, svg};
};

// A line through those of the points [x, y] that are not null.
const addLine = (svg, style, points) =>
  add(svg, 'path', {class: style, d: points.filter(Boolean)
    .map(([x, y], i) => (i ? 'L' : 'M') + px(x) + ' ' + px(y)).join('')});

const addDot = (svg, style, x, y, r) =>
  add(svg, 'circle', {class: style, cx: px(x), cy: px(y), r});

// Upright lines at the ticks of `x`, named below `bottom`.
const addBottomAxis = (svg, x, ticks, bottom, name) => {
  const group = add(svg, 'g', {class: 'axis x'});
  for (const tick of ticks) {
    add(group, 'path', {d: `M${px(x.at(tick))} ${TOP}V${bottom}`});
    add(group, 'text', {x: px(x.at(tick)), y: bottom + 19}, name(tick));
  }
};

const addLeftAxis = (svg, y, ticks, name) => {
  const group = add(svg, 'g', {class: 'axis y'});
  for (const tick of ticks) {
    add(group, 'path', {d: `M${LEFT} ${px(y.at(tick))}H${RIGHT}`});
    add(group, 'text', {x: LEFT - 8, y: px(y.at(tick) + 4)}, name(tick));
  }
};

// ---- collectives ----

const sizesOf = row => Math.max(1, row.bytes);

// The axis of a panel's sizes.  A row's column holds the places that are nearer
// to its size than to any other.
const sizeAxis = rows => {
  let [min, max] = [sizesOf(rows[0]), sizesOf(rows[rows.length - 1])];
  if (min === max)
    [min, max] = [min / 2, max * 2];
  const x = axis(min, max, LEFT + 6, RIGHT - 6, true);
  const at = rows.map(row => x.at(sizesOf(row)));
  x.columns = at.map((place, i) => [i ? (at[i - 1] + place) / 2 : LEFT,
    i + 1 < at.length ? (place + at[i + 1]) / 2 : RIGHT]);
  return x;
};

const addSizes = (svg, x, bottom) => {
  addBottomAxis(svg, x, sizeTicks(x), bottom, sizeName);
  add(svg, 'text', {x: RIGHT + 12, y: bottom + 19}, 'bytes');
};

// Shows, below the plot, the text of the row that the pointer is at.
const addReadout = ({figure, svg}, x, rows, bottom, textOf) => {
  const cursor = add(svg, 'path', {class: 'cursor'});
  const out = add(figure, 'p', {class: 'readout'},
    'Touch the plot, or point at it, for values.');
  rows.forEach((row, i) => {
    const [from, to] = x.columns[i];
    const hit = add(svg, 'rect', {class: 'hit', x: px(from), y: TOP,
      width: px(to - from), height: bottom - TOP});
    const show = () => {
      out.textContent = sizeName(row.bytes) + ': ' + textOf(row);
      cursor.setAttribute('d', `M${px(x.at(sizesOf(row)))} ${TOP}V${bottom}`);
    };
    hit.addEventListener('pointermove', show);
    hit.addEventListener('pointerdown', show);
  });
};

// The policy's gain at a row: 1 where it keeps NCCL's choice, null where its
// arm was not measured.
const noGain = {gain: 1, gain_low: 1, gain_high: 1};
const gainOf = row =>
  row.unmeasured ? null : row.gain === null ? noGain : row;
const choiceOf = row => row.gain === null ? row.auto : row.choice;

// Legend entries of what a panel may lack.
const setupLegend = ({has_setups}) =>
  has_setups ? [['setup', 'fastest setup']] : [];

const gainText = row => {
  let text = `NCCL ${ranName(row.auto)} ${row.auto_us.toFixed(2)} us; `;
  if (row.changed)
    text += `policy ${ranName(row.choice)} ${row.tuned_us.toFixed(2)} us, ` +
      `gain ${interval(row)}`;
  else if (row.unmeasured)
    text += "the policy's choice was not measured";
  else
    text += 'policy: the same';
  if (row.best)
    text += `; fastest ${row.best.arm} ${row.best.gain.toFixed(3)}`;
  return row.setup
    ? text + `; setup ${row.setup.arm} ${row.setup.gain.toFixed(3)}` : text;
};

// The same tint in all panels: ring's protocols apart, others by algorithm.
const tints = ['ring/ll128', 'ring/ll', 'ring/simple', 'tree', 'nvls'];
const tintOf = name => {
  const i = tints.findIndex(start => name.startsWith(start));
  return 't' + (i < 0 ? tints.length : i);
};

// Stretches of sizes with the same algorithm and protocol.
const addRibbon = (svg, x, rows, label, y, nameOf) => {
  add(svg, 'text', {class: 'side', x: LEFT - 8, y: y + 15}, label);
  for (let i = 0, k; i < rows.length; i = k) {
    const name = nameOf(rows[i]);
    for (k = i + 1; k < rows.length && nameOf(rows[k]) === name;)
      k++;
    const from = x.columns[i][0], to = x.columns[k - 1][1];
    const strip = add(svg, 'g', {class: 'strip'});
    add(strip, 'title', {}, label + ': ' + name);
    add(strip, 'rect', {class: tintOf(name), x: px(from), y,
      width: px(to - from), height: 22});
    if (to - from > 6.5 * name.length)
      add(strip, 'text', {x: px((from + to) / 2), y: y + 15}, name);
  }
};

const drawGain = (parent, panel) => {
  const rows = panel.rows, x = sizeAxis(rows), bottom = 250;
  const caption = 'Gain over AUTO, times as fast';
  const plot = addFigure(parent, caption, `${panel.name}: ${caption}`,
    [['policy', 'policy'], ['band', '95 percent interval'],
     ['slower', 'slower'], ['best', 'fastest arm'], ...setupLegend(panel)], 338);
  const svg = plot.svg, gains = rows.map(gainOf).filter(Boolean);
  const best = rows.filter(row => row.compared)
    .map(row => [row, row.best ? row.best.gain : 1]);
  const setups = rows.filter(row => row.setup)
    .map(row => [row, row.setup.gain]);
  // An interval of one round has no ends (low is 0 or null, high is null).
  const min = Math.min(0.98, ...gains.map(g => g.gain_low || g.gain)) - 0.01;
  const max = Math.max(1.05, ...gains.map(g => g.gain_high ?? g.gain),
    ...[...best, ...setups].map(([, gain]) => gain)) + 0.02;
  const y = axis(min, max, bottom, TOP, false);
  const at = (row, gain) =>
    [x.at(sizesOf(row)), y.at(Math.min(max, Math.max(min, gain)))];
  const along = value => rows.map(row => {
    const gain = gainOf(row);
    return gain && at(row, value(gain));
  });

  addSizes(svg, x, bottom);
  addLeftAxis(svg, y, linearTicks(y), tick => tick.toFixed(2));
  add(svg, 'path', {class: 'one', d: `M${LEFT} ${px(y.at(1))}H${RIGHT}`});
  addLine(svg, 'band', [...along(gain => gain.gain_high ?? max),
    ...along(gain => gain.gain_low).reverse()]);
  addLine(svg, 'best', best.map(([row, gain]) => at(row, gain)));
  addLine(svg, 'setup', setups.map(([row, gain]) => at(row, gain)));
  addLine(svg, 'policy', along(gain => gain.gain));
  for (const row of rows.filter(row => row.changed))
    addDot(svg, row.slower ? 'slower' : 'changed', ...at(row, row.gain),
      row.slower ? 5 : 3);
  addRibbon(svg, x, rows, 'AUTO', bottom + 31, row => pairName(row.auto));
  addRibbon(svg, x, rows, 'policy', bottom + 57,
    row => row.unmeasured ? '-' : pairName(choiceOf(row)));
  addReadout(plot, x, rows, bottom, gainText);
};

// The names of curves at their right ends, apart from each other.
const addNames = (svg, ends, bottom) => {
  const group = add(svg, 'g', {class: 'names'}), step = 15;
  let free = TOP;
  ends = ends.filter(([, y]) => y >= TOP && y <= bottom)
    .sort((a, b) => a[1] - b[1]);
  ends.forEach(([name, y], i) => {
    // Leaves room for the names below.
    free = Math.min(Math.max(free, y), bottom - (ends.length - 1 - i) * step);
    add(group, 'text', {x: RIGHT + 6, y: px(free + 4)}, name);
    free += step;
  });
};

// Bus bandwidth or latency: `valueOf` takes a row and a time.
const drawTimes = (parent, panel, caption, unit, valueOf, axisOf) => {
  const rows = panel.rows, x = sizeAxis(rows), bottom = 300;
  const plot = addFigure(parent, caption, `${panel.name}: ${caption}`,
    [['auto', 'AUTO'], ['policy', 'policy'],
     ['changed', 'changed by it'], ['best', 'fastest arm'],
     ...setupLegend(panel), ['other', 'other arms']], 330);
  const auto = row => row.auto_us;
  const policy = row => row.tuned_us ?? row.auto_us;
  const best = row => row.best_us;
  const setup = row => row.setup?.us;
  // The axis fits these curves; those of other arms may be clipped.
  const values = rows.flatMap(row => [auto, policy, best, setup]
    .filter(us => us(row) > 0).map(us => valueOf(row, us(row))));
  const y = axisOf(Math.min(...values), Math.max(...values), bottom);
  const at = (row, us) =>
    us > 0 && [x.at(sizesOf(row)), y.at(valueOf(row, us))];
  const curve = us => rows.map(row => at(row, us(row)));
  const arms = [...new Set(rows.flatMap(row => Object.keys(row.arms)))]
    .map(name => [name, curve(row => row.arms[name]).filter(Boolean)]);
  const box = [LEFT, TOP - 4, RIGHT - LEFT, bottom - TOP + 8];
  const text = row => `AUTO ${digits(valueOf(row, auto(row)))}` +
    (row.gain !== null ? `, policy ${digits(valueOf(row, policy(row)))}` : '') +
    (best(row) ? `, fastest ${digits(valueOf(row, best(row)))}` : '') +
    (setup(row) ? `, setup ${digits(valueOf(row, setup(row)))}` : '') +
    ' ' + unit;

  addSizes(plot.svg, x, bottom);
  addLeftAxis(plot.svg, y, y.ticks, digits);
  // A nested SVG clips the curves of slow arms.
  const inner = add(plot.svg, 'svg', {x: box[0], y: box[1], width: box[2],
    height: box[3], viewBox: box.join(' ')});
  for (const [, points] of arms)
    addLine(inner, 'other', points);
  addLine(inner, 'auto', curve(auto));
  addLine(inner, 'best', curve(best));
  addLine(inner, 'setup', curve(setup));
  addLine(inner, 'policy', curve(policy));
  for (const row of rows.filter(row => row.changed))
    addDot(inner, row.slower ? 'slower' : 'changed',
      ...at(row, policy(row)), 3);
  addNames(plot.svg, arms.filter(([, points]) => points.length)
    .map(([name, points]) => [name, points[points.length - 1][1]]), bottom);
  addReadout(plot, x, rows, bottom, text);
};

const bandwidthAxis = (min, max, bottom) => {
  const y = axis(0, max * 1.04, bottom, TOP, false);
  return {...y, ticks: linearTicks(y)};
};

const latencyAxis = (min, max, bottom) => {
  const y = axis(min / 1.15, max * 1.4, bottom, TOP, true);
  return {...y, ticks: logTicks(y)};
};

// A button for each panel shows it and hides the others.
const addPicker = (parent, panels) => {
  const nav = document.createElement('nav');
  const buttons = panels.map(panel => add(nav, 'button', {type: 'button'},
    panel.querySelector('h3').textContent));
  const pick = picked => panels.forEach((panel, i) => {
    panel.hidden = i !== picked;
    buttons[i].setAttribute('aria-pressed', i === picked);
  });
  nav.className = 'pick';
  nav.setAttribute('aria-label', 'Collective');
  buttons.forEach((button, i) =>
    button.addEventListener('click', () => pick(i)));
  parent.prepend(nav);
  pick(0);
};

const drawCollectives = parent => {
  const panels = data.panels.map(panel => {
    const div = add(parent, 'div', {class: 'panel'});
    add(div, 'h3', {}, panel.name);
    drawGain(div, panel);
    drawTimes(div, panel, 'Bus bandwidth, GB/s', 'GB/s', (row, us) =>
      row.bytes / us / 1000 * panel.bus_factor, bandwidthAxis);
    drawTimes(div, panel, 'Latency, us', 'us', (row, us) => us, latencyAxis);
    return div;
  });
  if (panels.length > 1)
    addPicker(parent, panels);
};

// ---- training steps ----

// A line for each [name, arm]: its step in percent of AUTO's.
const drawSteps = (parent, caption, lines, left) => {
  const bottom = TOP + 24 * lines.length;
  const {svg} = addFigure(parent, caption,
    `${caption}: duration of a step in percent of AUTO's`, [], bottom + 28);
  const steps = lines.map(([name, arm], i) => ({name, arm,
    y: TOP + 24 * (i + 0.5), at: 100 / arm.gain,
    from: 100 / (arm.gain_high ?? arm.gain),
    to: 100 / (arm.gain_low || arm.gain)}));
  const min = Math.min(99.5, ...steps.map(step => step.from));
  const max = Math.max(100.5, ...steps.map(step => step.to));
  const room = 0.05 * (max - min);
  const x = axis(min - room, max + room, left, 640, false);

  addBottomAxis(svg, x, linearTicks(x), bottom, tick => digits(tick) + '%');
  add(svg, 'path', {class: 'one', d: `M${px(x.at(100))} ${TOP}V${bottom}`});
  for (const {name, arm, y, at, from, to} of steps) {
    const [paired, shorter] = [arm.gain_high !== null, arm.gain_low > 1];
    const longer = paired && arm.gain_high < 1;
    const group = add(svg, 'g', {class: 'dot' +
      (shorter ? ' shorter' : longer ? ' longer' : '')});
    add(group, 'title', {},
      `${name}: ${arm.mean_us.toFixed(1)} us a step, gain ${interval(arm)}`);
    add(group, 'text', {x: left - 10, y: y + 5}, name);
    if (paired)
      add(group, 'path', {d: `M${px(x.at(from))} ${y}H${px(x.at(to))}`});
    addDot(group, '', x.at(at), y, 4.5);
  }
};

// Steps with the policy share a figure, with a line per workload; without it
// each workload has a figure, with a line per arm: the six that gain most are
// open.
const drawSet = (parent, set) => {
  if (set.by_policy)
    drawSteps(parent, 'Step with the policy, a line per workload',
      set.settings.flatMap(setting => setting.arms
        .filter(arm => arm.arm === 'plugin').map(arm => [
          setting.setting.replaceAll('_', ' ') +
          (set.has_ranks ? `, ${setting.nRanks} ranks` : ''), arm])), 270);
  else {
    const gainOf = ({arms}) => Math.max(...arms.map(arm =>
      arm.gain_low > 1 ? arm.gain : 0));
    const draw = (inside, settings) => settings.forEach(setting =>
      drawSteps(inside, setting.workload,
        setting.arms.map(arm => [arm.arm, arm]), 175));
    const fold = (text, settings) => {
      if (!settings.length)
        return;
      const details = add(parent.parentNode, 'details', {class: 'all'});
      folds.after(details);
      folds = details;
      add(details, 'summary', {}, `${text}: ${settings.length}` +
        (settings.length > 1 ? ' workloads' : ' workload'));
      draw(add(details, 'div', {class: 'steps'}), settings);
    };
    const won = set.settings.filter(setting => gainOf(setting) > 0)
      .sort((a, b) => gainOf(b) - gainOf(a));
    let folds = parent;

    draw(parent, won.slice(0, 6));
    fold('Where steps are shorter by less', won.slice(6));
    fold('Where no arm makes the step shorter beyond doubt',
      set.settings.filter(setting => gainOf(setting) === 0));
  }
};

if (data.panels.length)
  drawCollectives(document.getElementById('collectives'));
[...document.querySelectorAll('.steps, .step')].forEach((parent, i) =>
  drawSet(parent, data.sets[i]));
document.documentElement.dataset.ready = 'yes';
})();
