#!/bin/sh
# page.sh STEPTUNE - fails if the page of `steptune report`, opened in headless
# Chromium at 360 and 1280 pixels, says anything on the console, lacks plots, did
# not run its script or is wider than the window; 77 without Chromium.
set -eu
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$chromium" ]; then
	echo "no Chromium here, expected the Debian package chromium"
	exit 77
fi
steptune=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export CUDA_VISIBLE_DEVICES=''
"$steptune" tune --on h200x4 -o my.conf >log
"$steptune" iterate --on h200x4 --iters 5 -o steps >log
"$steptune" verify my.conf --on h200x4 --proof >log
mv my.conf.verified.csv my.verify.csv
mv steps/rounds.csv my.iterations.csv
echo '# </pre><script>console.error("a comment is no script")</script>' >>my.conf
"$steptune" report my.conf -o page.html >log

# What a frame of the page looks like from outside: the page itself has no code
# for tests.  srcdoc makes it of one origin with what looks.
quoted=$(sed -e 's/&/\&amp;/g' -e 's/"/\&quot;/g' page.html)
cat >frames.html <<END
<!doctype html><meta charset="utf-8"><title>frames</title>
<body><pre id="seen"></pre>
<iframe width="360" height="2000" srcdoc="$quoted"></iframe>
<iframe width="1280" height="2000" srcdoc="$quoted"></iframe>
<script>
addEventListener('load', function () {
  var seen = [];
  document.querySelectorAll('iframe').forEach(function (frame) {
    var d = frame.contentDocument, e = d.documentElement;
    var shown = d.querySelectorAll('.panel:not([hidden])').length;
    d.querySelectorAll('.pick button')[1].click();
    var rect = d.querySelector('.panel:not([hidden]) .hit rect');
    rect.dispatchEvent(new frame.contentWindow.PointerEvent('pointermove', {bubbles: true}));
    var told = d.querySelector('.panel:not([hidden]) .readout').textContent;
    d.querySelectorAll('details').forEach(function (x) { x.open = true; });
    seen.push(frame.width + ': ready ' + e.dataset.ready + ', ' +
      d.querySelectorAll('figure > svg').length + ' plots, ' + shown + ' shown, then ' +
      d.querySelector('.panel:not([hidden]) h3').textContent + ', told ' +
      /^[0-9.]+K: NCCL/.test(told) + ', wider by ' +
      (e.scrollWidth - e.clientWidth) + ', text ' +
      d.querySelectorAll('pre script').length);
  });
  document.getElementById('seen').textContent = '\n' + seen.join('\n') + '\n';
});
</script>
END
timeout 60 "$chromium" --headless=new --no-sandbox --disable-gpu --user-data-dir="$dir/profile" \
	--virtual-time-budget=5000 --enable-logging=stderr --dump-dom "file://$dir/frames.html" >dom 2>err
sed -n '/<pre id="seen">/,/<\/pre>/p' dom | sed '1d;$d' >seen
cat >expect <<'END'
360: ready yes, 10 plots, 1 shown, then Reduce-scatter, told true, wider by 0, text 0
1280: ready yes, 10 plots, 1 shown, then Reduce-scatter, told true, wider by 0, text 0
END
bad=0
diff -u expect seen || bad=1
if grep -E 'CONSOLE' err; then
	echo "the page says something on the console, expected nothing"
	bad=1
fi
exit $bad
