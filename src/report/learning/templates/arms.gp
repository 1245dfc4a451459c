# arms.gp - the share of a message's calls that each arm had
#
# data: a block per message; columns message, first call of the window, and each
# arm's share on top of those before it, in percent.
# Settings: arms (the first is NCCL's own), others (whether the last one is all
# others), last_call.

hue(k) = k == 1 ? 0xc8c8c8 : others && k == n_arms ? 0x404040 : colour(k - 1)
set label 2 title at screen 0.5,0.965 center font ',15'
set ylabel 'Calls (%)'
set yrange [0 : 100]
set ytics 50
set xrange [0 : last_call]
set style fill solid 1.0 noborder
unset grid
unset key

# one key for all panels: gnuplot's own would have to fit beside one of them
do for [k = 1:n_arms] {
    y = 0.85 - 0.036 * (n_arms - k)
    set object k rectangle from screen 0.82,y - 0.011 \
        to screen 0.845,y + 0.011 fillcolor rgb hue(k) fillstyle solid noborder
    set label k + 2 arms[k] at screen 0.852,y left
}

set multiplot
each = 0.80 / n
set lmargin at screen 0.085
set rmargin at screen 0.80
do for [p = 1:n] {
    top = 0.91 - each * (p - 1)
    set tmargin at screen top - 0.045
    set bmargin at screen top - each + 0.012
    if (p < n) {
        set format x ''
        unset xlabel
    } else {
        set format x '%.0f'
        set xlabel 'Calls of the communicator'
    }
    set title titles[p] font ',12' offset 0,-0.5
    # from the top arm down, since each hides what is below
    plot for [k = n_arms:1:-1] data index p - 1 using 2:(column(2 + k)) \
             with fillsteps fillcolor rgb hue(k)
    unset label
    unset object
}
unset multiplot
