# gains.gp - each arm's gain over AUTO against the size
#
# data: a block an arm; columns arm, bytes, gain, low and high ends of its
# interval, gain of the collectives alone (?: none).
# Settings: least_octaves between two sizes.

set tmargin 3
set label 2 title at screen 0.01,0.965 left \
    font (strlen(title) > 100 ? ',12' : ',15') # may be wider than the axes
set ylabel ylabel
set datafile missing '?'

stats data using 2 nooutput
first_bytes = STATS_min
last_bytes = STATS_max
eval size_axis
# Arms stand beside each other, so that their intervals do not hide each other.
octaves = log(last_bytes / first_bytes) / log(2)
dodge = min((octaves + 0.7) * 0.008, 0.5 * least_octaves / n)
beside(i) = 2.0 ** (dodge * (i - 1 - 0.5 * (n - 1)))
set xrange [first_bytes / 1.25 / beside(n) : last_bytes * 1.25 * beside(n)]

# The axis covers all points, and their intervals unless they dwarf them.
stats data using (min($3, has_alone && valid(6) ? $6 : $3)) nooutput
y_low = min(1, STATS_min)
stats data using (max($3, has_alone && valid(6) ? $6 : $3)) nooutput
y_high = max(1, STATS_max)
stats data using 4 nooutput
y_low = min(y_low, max(STATS_min, y_low * 0.8))
stats data using 5 nooutput
y_high = max(y_high, min(STATS_max, y_high * 1.25))
if (y_high > y_low * 4) {
    y_low = y_low / 1.1
    y_high = y_high * 1.1
    eval log_axis
} else {
    room = max((y_high - y_low) * 0.06, 0.005)
    set yrange [y_low - room : y_high + room]
}

plot 1 with lines linecolor rgb colour(0) linewidth 2 title 'auto', \
     for [i = 1:has_alone ? n : 0] data index i - 1 using ($2 * beside(i)):\
         (column(has_alone ? 6 : 3)) \
         with linespoints linecolor rgb colour(i) linewidth 1 \
         dashtype (12,8) pointtype full[1 + (i - 1) % 6] - 1 pointsize 1.1 \
         notitle, \
     for [i = 1:n] data index i - 1 using ($2 * beside(i)):3:4:5 \
         with yerrorlines linecolor rgb colour(i) linewidth 2 \
         pointtype full[1 + (i - 1) % 6] pointsize 1.1 title titles[i]
