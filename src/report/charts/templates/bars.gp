# bars.gp - backends beside each other, in groups of a number of processes
#
# data: a block per backend; columns backend, processes, bytes, milliseconds.

# the numbers of processes, ascending
stats data using 2 nooutput
most = STATS_max
array groups[STATS_records]
n_groups = 0
last = 0
while (last < most) {
    stats data using ($2 > last ? $2 : NaN) nooutput
    last = STATS_min
    n_groups = n_groups + 1
    groups[n_groups] = last
}

eval whole_title
set ylabel 'Time (ms)'
set grid noxtics
set xrange [-0.6 : n_groups - 0.4]
set xtics scale 0 (sprintf('%d processes', groups[1]) 0)
do for [g = 2:n_groups] {
    set xtics add (sprintf('%d processes', groups[g]) g - 1)
}
stats data using 4 nooutput
if (STATS_min * 20 < STATS_max) {
    y_low = STATS_min / 3
    y_high = STATS_max * 2
    eval log_axis
} else {
    set yrange [0 : STATS_max * 1.1]
}
set boxwidth 0.74 / n absolute
set style fill solid 0.9 noborder

place(processes, i) = (sum [g = 1:n_groups] groups[g] == processes ? g - 1 : 0) \
                      - 0.4 + 0.8 / n * (i - 0.5)
label(ms) = sprintf(ms >= 100 ? '%.0f ms' : ms >= 10 ? '%.1f ms' : \
                    ms >= 1 ? '%.2f ms' : '%.3f ms', ms)

plot for [i = 1:n] data index i - 1 using (place($2, i)):4 with boxes \
         linecolor rgb colour(i) title titles[i], \
     for [i = 1:n] data index i - 1 using (place($2, i)):4:(label($4)) \
         with labels offset 0,0.6 font ',11' notitle
