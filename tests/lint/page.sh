#!/bin/sh
# page.sh STEPTUNE - fails if the page of `steptune report`, opened in headless
# Chromium at 360 and 1280 pixels, writes to the console, lacks plots, has numbers
# in them that are none, did not run its script, or is wider than the window, or if
# its axes have wrong ticks; 77 without Chromium.
set -eu
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$chromium" ]; then
	echo "no Chromium here, expected the Debian package chromium"
	exit 77
fi
steptune=$1
fixtures=$(cd "$(dirname "$0")/../../fixtures" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export CUDA_VISIBLE_DEVICES=''
"$steptune" tune --on h200x4 -o my.conf >log
"$steptune" iterate --on h200x4 --iters 5 -o steps >log
"$steptune" verify my.conf --on h200x4 --proof >log
mv my.conf.verified.csv my.verify.csv
echo '# </pre><script>console.error("a comment is no script")</script>' >>my.conf
"$steptune" report my.conf steps/rounds.csv -o page.html >log

# Pages of one size, and of many training steps.
mkdir one
awk '/^#/ || !heading++ || /,524288,/' my.sweep.csv >one/one.sweep.csv
"$steptune" report one -o one.html >log
"$steptune" report "$fixtures/reports/h200x2/steptune.iterations.csv" -o steps.html >log

# Frames of the pages as a user sees them; srcdoc makes them of one origin with
# this script.  The pages have no code for tests: sed lets the scales out.
quote() {
	sed -e 's/&/\&amp;/g' -e 's/"/\&quot;/g' \
		-e "s/^document.*ready = .*/window.scales = {axis, linearTicks, logTicks, sizeTicks};&/" "$1"
}
cat >frames.html <<END
<!doctype html><meta charset="utf-8"><title>frames</title>
<body><pre id="seen"></pre>
<iframe width="360" height="2000" srcdoc="$(quote page.html)"></iframe>
<iframe width="1280" height="2000" srcdoc="$(quote page.html)"></iframe>
<iframe width="800" height="2000" srcdoc="$(quote one.html)"></iframe>
<iframe width="800" height="2000" srcdoc="$(quote steps.html)"></iframe>
<script>
function look(frame) {
  var d = frame.contentDocument, e = d.documentElement;
  var shown = d.querySelectorAll('.panel:not([hidden])').length;
  var button = d.querySelectorAll('.pick button')[1];
  if (button) button.click();
  var panel = d.querySelector('.panel:not([hidden])');
  if (panel) panel.querySelector('.hit').dispatchEvent(
    new frame.contentWindow.PointerEvent('pointermove', {bubbles: true}));
  d.querySelectorAll('details').forEach(function (x) { x.open = true; });
  var svg = Array.from(d.querySelectorAll('figure > svg'));
  return frame.width + ': ready ' + e.dataset.ready + ', ' + svg.length + ' plots, ' +
    svg.filter(function (x) { return /NaN|Infinity|undefined|null/.test(x.outerHTML); }).length +
    ' broken, ' + d.querySelectorAll('g.shorter').length + ' shorter, ' +
    d.querySelectorAll('g.longer').length + ' longer, ' + shown + ' shown' +
    (panel ? ', then ' + panel.querySelector('h3').textContent + ', told ' +
      /^[0-9.]+[KM]: NCCL/.test(panel.querySelector('.readout').textContent) : '') + ', wider by ' +
    (e.scrollWidth - e.clientWidth) + ', text ' + d.querySelectorAll('pre script').length;
}
function check(scales) {
  var wrong = [], cases = [
    ['linearTicks', 0, 257, [0, 50, 100, 150, 200, 250]],
    ['linearTicks', 0, 6, [0, 1, 2, 3, 4, 5, 6]],
    ['linearTicks', 0.97, 1.42, [1, 1.1, 1.2, 1.3, 1.4]],
    ['linearTicks', 99, 101, [99, 99.5, 100, 100.5, 101]],
    ['logTicks', 12, 190, [20, 50, 100]],
    ['logTicks', 1, 10, [1, 2, 5, 10]],
    ['logTicks', 3, 30000, [10, 100, 1000, 10000]],
    ['sizeTicks', 500000, 5e6, [524288, 1048576, 2097152, 4194304]],
    ['sizeTicks', 8, 1073741824, [16, 256, 4096, 65536, 1048576, 16777216, 268435456]],
    ['sizeTicks', 1024, 1024, [1024]]];
  cases.forEach(function (c) {
    var ticks = scales[c[0]]({min: c[1], max: c[2]});
    if (String(ticks) !== String(c[3])) wrong.push(c[0] + ' ' + ticks);
  });
  // However narrow or wide: few, within, ascending.
  for (var min = 1e-3; min < 1e9; min *= 7.3)
    for (var factor = 1.001; factor < 1e11; factor *= 3.7)
      ['linearTicks', 'logTicks', 'sizeTicks'].forEach(function (name) {
        var max = min * factor, ticks = scales[name]({min: min, max: max});
        if (ticks.length > 12 || ticks.some(function (t, i) {
          return !(t >= min - 1e-8 * max && t <= max + 1e-8 * max) || (i && !(t > ticks[i - 1]));
        })) wrong.push(name + ' of ' + min + ' to ' + max + ': ' + ticks);
      });
  var linear = scales.axis(0, 10, 100, 200, false), log = scales.axis(1, 100, 300, 0, true);
  return 'scales ' + [linear.at(0), linear.at(2.5), log.at(1), log.at(10), log.at(100)] +
    (wrong.length ? ', wrong ' + wrong.join('; ') : '');
}
addEventListener('load', function () {
  var frames = Array.from(document.querySelectorAll('iframe'));
  document.getElementById('seen').textContent = '\n' + frames.map(look).join('\n') + '\n' +
    check(frames[0].contentWindow.scales) + '\n';
});
</script>
END
timeout 60 "$chromium" --headless=new --no-sandbox --disable-gpu --user-data-dir="$dir/profile" \
	--virtual-time-budget=5000 --enable-logging=stderr --dump-dom "file://$dir/frames.html" >dom 2>err
sed -n '/<pre id="seen">/,/<\/pre>/p' dom | sed '1d;$d' >seen
cat >expect <<'END'
360: ready yes, 10 plots, 0 broken, 0 shorter, 0 longer, 1 shown, then Reduce-scatter, told true, wider by 0, text 0
1280: ready yes, 10 plots, 0 broken, 0 shorter, 0 longer, 1 shown, then Reduce-scatter, told true, wider by 0, text 0
800: ready yes, 9 plots, 0 broken, 0 shorter, 0 longer, 1 shown, then Reduce-scatter, told true, wider by 0, text 0
800: ready yes, 54 plots, 0 broken, 227 shorter, 300 longer, 0 shown, wider by 0, text 0
scales 100,125,300,150,0
END
# Nothing is shorter or longer in the first: overlap is modelled on h200x4.
bad=0
diff -u expect seen || bad=1
if grep -E 'CONSOLE' err; then
	echo "the page wrote to the console, expected nothing"
	bad=1
fi
exit $bad
