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

# A line for each of several sources that are wider than the chart together.
n_lines = 1
source_font = strlen(source) > 175 ? ',8' : ',9'
while (strlen(source) > 175 && strstrt(source, ' | ') > 0) {
    cut = strstrt(source, ' | ')
    source = source[1 : cut - 1] . "\n" . source[cut + 3 : strlen(source)]
    n_lines = n_lines + 1
}
set label 1 source at screen 0.01,0.012 + 10.0 * n_lines / height left font source_font textcolor rgb '#666666'
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

