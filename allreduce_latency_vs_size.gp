# Draws the picture again: gnuplot allreduce_latency_vs_size.gp >allreduce_latency_vs_size.png
format = 'png'
data = 'allreduce_latency_vs_size.tsv'
title = 'All-reduce latency, 2 ranks of Example GPU, f32 sum'
source = 'node-a, Example GPU, nccl, measured'
y_column = 4
always_log = 1
array bands[2]
bands[1] = 1
n_bands = 0
ylabel = 'Time (us)'
n = 2
array titles[2]
array hues[2]
array widths[2]
array dashes[2]
array shapes[2]
titles[1] = 'auto, out of place'
hues[1] = 0
widths[1] = 3
dashes[1] = 0
shapes[1] = 0
titles[2] = 'auto, in place'
hues[2] = 1
widths[2] = 3
dashes[2] = 0
shapes[2] = 1

# frame.gp - what every chart begins with: terminal, colours, axes, source
#
# Settings above: format, source; n_rows of panels.

set encoding utf8
set datafile separator tab

if (!exists('n_rows')) n_rows = 1
width = 1200
height = n_rows > 1 && 112 + 330 * n_rows > 720 ? 112 + 330 * n_rows : 720
if (format eq 'svg') {
    set terminal svg noenhanced size width,height font 'Sans,13' \
        background '#ffffff'
} else {
    if (strstrt(GPVAL_TERMINALS, 'pngcairo') > 0) {
        set terminal pngcairo noenhanced size width,height font 'Sans,13' \
            background '#ffffff'
    } else {
        set terminal png noenhanced size width,height
    }
}

# The palette of Okabe and Ito, which colour-blind readers tell apart, without
# its yellow, which is lost on white, and with a grey.
array palette[8] = [0x000000, 0xd55e00, 0x0072b2, 0x009e73, \
                    0xcc79a7, 0xe69f00, 0x56b4e9, 0x888888]
colour(i) = palette[1 + int(i) % 8]
array full[6] = [7, 5, 9, 13, 11, 15] # points

min(a, b) = a < b ? a : b
max(a, b) = a > b ? a : b

# 2 to the power of e as 8, 1K, 64M, 1G.
unit_of(e) = e < 10 ? 0 : min(int(e) / 10, 3)
size_name(e) = sprintf('%d', 2 ** (e - 10 * unit_of(e))) . \
               (e < 10 ? '' : substr('KMG', unit_of(e), unit_of(e)))

# 0.01, 500 or 1,000,000, whatever the locale.
commas(v) = v < 1000 ? sprintf('%g', v) : \
            commas(floor(v / 1000)) . \
            sprintf(',%03d', floor(v + 0.5) - 1000 * floor(v / 1000))

set label 1 source at screen 0.01,0.025 left font ',9' textcolor rgb '#666666'
set bmargin 5.5
set border 3 linecolor rgb '#666666'
set tics nomirror out textcolor rgb '#000000'
set grid xtics ytics linetype 1 linewidth 1 linecolor rgb '#dddddd'
set key outside right top vertical Left reverse samplen 4 spacing 1.2

# To be evaluated: the title above plot and key, of which either may be wide.
whole_title = 'set title " "; ' . \
    'set label 2 title at screen 0.5,0.955 center ' . \
    'font (strlen(title) > 90 ? ",12" : ",15")'

# To be evaluated: an axis of sizes from first_bytes to last_bytes.
size_axis = 'first_power = floor(log(first_bytes) / log(2) + 1e-9); ' . \
    'last_power = ceil(log(last_bytes) / log(2) - 1e-9); ' . \
    'powers = last_power - first_power; ' . \
    'step = powers < 15 ? 1 : powers < 30 ? 2 : 5; ' . \
    'set xlabel "Size (bytes)"; ' . \
    'set logscale x 2; ' . \
    'set xrange [first_bytes / 1.25 : last_bytes * 1.25]; ' . \
    'set xtics (size_name(first_power) 2.0 ** first_power); ' . \
    'do for [e = first_power + 1 : last_power] { ' . \
    'if (e % step == 0) { set xtics add (size_name(e) 2.0 ** e) } }'

# To be evaluated: a logarithmic axis from y_low to y_high; 2 and 5 have a name
# where there is room for it.
log_axis = 'set logscale y 10; ' . \
    'set mytics 10; ' . \
    'set yrange [y_low : y_high]; ' . \
    'e = ceil(log10(y_low)); ' . \
    'set ytics (commas(10.0 ** e) 10.0 ** e); ' . \
    'do for [e = floor(log10(y_low)) : ceil(log10(y_high))] { ' . \
    'do for [m in log10(y_high / y_low) < 2.5 ? "1 2 5" : "1"] { ' . \
    'set ytics add (commas(m * 10.0 ** e) m * 10.0 ** e) } }'

# lines.gp - curves over the size
#
# data: a block per curve; columns curve, bytes, bus bandwidth, median, mean,
# p95 and p99, of which y_column is drawn.
# Settings: always_log; of each curve: titles, hues, widths, dashes, shapes; bands: the
# n_bands curves that are shaded up to their percentiles.

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

plot for [b = 1:n_bands] data index bands[b] - 1 using 2:4:6 \
         with filledcurves linecolor rgb colour(hues[bands[b]]) \
         fillstyle transparent solid 0.25 noborder notitle, \
     for [b = 1:n_bands] data index bands[b] - 1 using 2:6:7 \
         with filledcurves linecolor rgb colour(hues[bands[b]]) \
         fillstyle transparent solid 0.12 noborder notitle, \
     for [i = 1:n] data index i - 1 using 2:y_column with linespoints \
         linecolor rgb colour(hues[i]) linewidth widths[i] \
         dashtype 1 + dashes[i] % 5 pointtype points[1 + shapes[i] % 8] \
         pointsize 0.9 title titles[i]
