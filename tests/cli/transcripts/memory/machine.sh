# machine.sh - 2 x H200 in ./m, made as if registered buffers had been
# recorded on it: symmetric memory takes 0.8 times as long up to 8 MiB and 1.2 times
# above, copy engines gather 0.9 times as long from 32 MiB on and else take 1.3 times
# as long, and registering alone changes nothing. Without all of that in ./plain.
# With wide=1 there is a communicator of 32 CTAs, too, in which symmetric memory takes 0.7
# times as long for all-reduces of 2 MiB, and else as long as without; with staged=1 buffers
# are staged in such a one, too: 0.75 times as long up to 16 MiB, and 1.1 times above.
h200x2=$FIXTURES/machines/h200x2
mkdir m plain
cp $h200x2/machine.csv $h200x2/graphs.xml plain
awk -F, '/^#/ { print; next }
	!mode { for (i = 1; i <= NF; i++) if ($i == "mode") mode = i }
	$0 ~ /^collective/ || ($mode == "overlap" && $0 !~ /,(reg|ce|sym)[^,]*,/)' \
	$h200x2/overlap.csv >plain/overlap.csv
awk -F, '/^#/ || $3 !~ /^(reg|ce|sym)/' $h200x2/timings.csv >plain/timings.csv
cp plain/* m
awk -F, -v wide="$wide" -v staged="$staged" '
	function with(arm, factor, kernel,   i) {
		printf "%s,%s,%s,%s", $1, $2, arm, arm
		for (i = 5; i <= 13; i++) printf i < 10 ? ",%s" : ",%.6f", i < 10 ? $i : $i * factor
		print "," kernel
	}
	{ print }
	/^#/ || $3 != "auto" || $7 != "window" || ($1 != "allgather" && $1 != "allreduce") { next }
	{
		gathers = $1 == "allgather"
		with("reg", 1, "")
		small = $2 <= 8388608 ? 0.8 : 1.2
		with("sym", small, "Kernel_A")
		if (wide) with("sym/ctas=32-64", small * ($1 == "allreduce" && $2 == 2097152 ? 0.7 : 1), "Kernel_A")
		if (staged) with("stage/ctas=32-64", $2 <= 16777216 ? 0.75 : 1.1, "Kernel_A")
		with("ce", gathers && $2 >= 33554432 ? 0.9 : 1.3, gathers ? "copy engines" : "Kernel_A")
	}' plain/timings.csv >m/timings.csv
