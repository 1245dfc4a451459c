# scaling.gp - panels with speed-ups over one GPU, beside the ideal
#
# data: a block per line, the first the ideal; columns panel, line, GPUs,
# speed-up, low and high ends of its interval.
# Settings: first line and number of lines of each panel; gpus.

most = gpus[|gpus|]
set multiplot
do for [p = 1:n_panels] {
    eval place
    set xlabel x_title offset 0,0.4
    set xtics (sprintf('%d', gpus[1]) gpus[1])
    set ytics (sprintf('%d', gpus[1]) gpus[1])
    do for [g = 2:|gpus|] {
        set xtics add (sprintf('%d', gpus[g]) gpus[g])
        set ytics add (sprintf('%d', gpus[g]) gpus[g])
    }
    if (most > 16) {
        set logscale xy 2
        set xrange [0.9 : most * 1.1]
        set yrange [0.5 : highest * 1.1]
    } else {
        set xrange [1 - most * 0.06 : most * 1.06]
        set yrange [0 : highest * 1.06]
    }
    plot data index 0 using 3:4 with lines linecolor rgb colour(7) \
             linewidth 2 dashtype 2, \
         for [l = first[p]:first[p] + count[p] - 1] data index l \
             using 3:4:5:6 with yerrorlines linecolor rgb colour(hues[l]) \
             linewidth 2 pointtype full[1 + shapes[l] % 6] pointsize 1.2
}
unset multiplot
