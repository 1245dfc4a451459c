# page.gp - panels in rows and columns, a title above and one key for all
#
# The template after it begins the multiplot.
# Settings: title, how, y_title, keys with key_hues and key_points (0: none),
# lined (the key has lines, not boxes); of each panel its row and
# column, both from 0, and its title.

longest = 0
do for [k = 1:n_keys] { longest = max(longest, strlen(keys[k])) }
key_width = 52.0 + 10 * longest
column_width = (width - 34 - key_width) / n_columns
row_height = (height - 78.0 - 34) / n_rows
left_margin = lined ? 80 : 62 # numbers are longer beside lines

# From pixels to shares of the picture.
across(px) = 1.0 * px / width
up(px) = 1 - 1.0 * px / height

set label 2 title at screen 0.01,up(24) left \
    font (strlen(title) > 110 ? ',12' : ',15')
set label 3 how at screen 0.01,up(52) left font ',11' textcolor rgb '#444444'
key_left = width - key_width + 14
do for [k = 1:n_keys] {
    y = 78 + 30 + 8 + 28 * (k - 1)
    half = lined ? 1.5 : 8
    set object k rectangle \
        from screen across(key_left),up(y + half) \
        to screen across(key_left + 20),up(y - half) \
        fillcolor rgb colour(key_hues[k]) fillstyle solid noborder
    if (key_points[k] > 0) {
        set label 100 + k '' at screen across(key_left + 10),up(y) \
            point pointtype key_points[k] pointsize 1.2 \
            linecolor rgb colour(key_hues[k])
    }
    set label k + 3 keys[k] at screen across(key_left + 28),up(y) left \
        font ',12'
}

# Places panel p; evaluated before each plot.
place = 'panel_width = column_width - left_margin - 8; ' . \
    'panel_left = 34 + column_width * columns[p] + left_margin; ' . \
    'panel_top = 78 + row_height * rows[p]; ' . \
    'if (p > 1) { unset label; unset object }; ' . \
    'if (columns[p] == 0) { set label 99 y_title at screen ' . \
    '0.012,up(panel_top + row_height / 2) center rotate by 90 }; ' . \
    'set lmargin at screen across(panel_left); ' . \
    'set rmargin at screen across(panel_left + panel_width); ' . \
    'set tmargin at screen up(panel_top + 30); ' . \
    'set bmargin at screen up(panel_top + row_height - 66); ' . \
    'set title titles[p] offset 0,-0.5 ' . \
    'font (8 * strlen(titles[p]) > column_width ? ",9" : ",11")'

unset key
set style fill solid 0.9 noborder
set ytics font ',11'

