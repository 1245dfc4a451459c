# bars.gp - panels with groups of bars
#
# data: a block per panel; columns panel, group, series, x (the middle of group g
# is g), value, low and high ends of its interval, hue, note; of stacked bars
# also the value without exposed communication, that without any, and the
# communication.
# Settings of each panel: groups (words), most (bars of a group), tops.

above_stack(note, comm) = sprintf("%.3g %s\n%s", comm, unit, note)
array part_hues[3] = [1, 6, 2] # exposed, hidden, computing alone

set multiplot
do for [p = 1:n_panels] {
    eval place
    n = words(groups[p])
    bar = 0.84 / most[p]
    # few bars are not as wide as the panel
    room = n * most[p] < 5 ? 0.5 * (5 - n * most[p]) / most[p] : 0
    pixels = panel_width * bar / (n + 0.2 + 2 * room)
    set grid noxtics
    set xlabel x_title offset 0,0.4
    if (slanted) { set xtics rotate by 25 right font ',11' }
    set xtics scale 0 (word(groups[p], 1) 0)
    do for [g = 2:n] { set xtics add (word(groups[p], g) g - 1) }
    set xrange [-0.6 - room : n - 0.4 + room]
    set yrange [0 : tops[p] * 1.28]
    # vectors, since error bars would come with a gap for their point
    plot for [k = 1:stacked ? 3 : 1] data index p - 1 \
             using 4:(column(k == 1 ? 5 : 8 + k)):(bar * 0.92):\
                   (colour(stacked ? part_hues[k] : $8)) \
             with boxes linecolor rgb variable, \
         data index p - 1 using 4:6:(0):($7 - $6) \
             with vectors heads size screen 0.003,90 linecolor rgb '#333333', \
         for [k = 1:pixels >= 44 && !stacked] data index p - 1 \
             using 4:(min($7, 1.6 * $5)):9 \
             with labels font ',10' offset 0,0.7, \
         for [k = 1:pixels >= 44 && stacked] data index p - 1 \
             using 4:(min($7, 1.6 * $5)):(above_stack(strcol(9), $12)) \
             with labels font ',10' offset 0,1.2, \
         for [k = 1:pixels >= 13 && pixels < 44] data index p - 1 \
             using 4:(min($7, 1.6 * $5)):9 \
             with labels font ',10' rotate by 90 left offset 0,0.4
}
unset multiplot
