# lines.gp - curves over the size
#
# data: a block per curve; columns curve, bytes, bus bandwidth, median and mean,
# of which y_column is drawn.
# Settings: always_log; of each curve: titles, hues, widths, dashes, shapes.

set dashtype 2 (8,3)
set dashtype 3 (2,3)
set dashtype 4 (8,3,2,3)
set dashtype 5 (14,4)
array points[8] = [7, 5, 9, 13, 11, 6, 4, 8]
eval whole_title
set ylabel ylabel

# The axes cover all curves; logarithmic where a linear one would hide the lower
# curves.
stats data using 2 nooutput
first_bytes = STATS_min
last_bytes = STATS_max
stats data using (column(y_column)) nooutput
y_high = STATS_max
low_peak = y_high
do for [i = 1:n] {
    stats data index i - 1 using (column(y_column)) nooutput
    low_peak = min(low_peak, STATS_max)
}
eval size_axis
if (y_high > 0 && (always_log || low_peak * 20 < y_high)) {
    stats data using (column(y_column) > 0 ? column(y_column) : NaN) nooutput
    y_low = STATS_min / 1.3
    y_high = STATS_max * 1.3
    eval log_axis
} else {
    set yrange [0 : y_high > 0 ? y_high * 1.06 : 1]
}

plot for [i = 1:n] data index i - 1 using 2:y_column with linespoints \
         linecolor rgb colour(hues[i]) linewidth widths[i] \
         dashtype 1 + dashes[i] % 5 pointtype points[1 + shapes[i] % 8] \
         pointsize 0.9 title titles[i]
