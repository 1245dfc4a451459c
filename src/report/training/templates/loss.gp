# loss.gp - panels with the loss over epochs
#
# data: a block per line; columns panel, line, epoch, loss.
# Settings: first line and number of lines of each panel; thickness from 0 to 1,
# since lines that coincide stay visible where each is thinner than the one
# before.

# Between the axis and its title there is room for numbers with as many decimals
# as tell about eight steps apart.
do for [p = 1:n_panels] {
    stats data index first[p] - 1:first[p] + count[p] - 2 using 4 nooutput
    step = STATS_max > STATS_min ? (STATS_max - STATS_min) / 8 : \
           STATS_max > 0 ? STATS_max / 500 : 1
    decimals = min(8, max(0, -floor(log10(step))))
    number = sprintf(sprintf('%%.%df', decimals), STATS_max)
    left_margin = max(left_margin, 20 + 8.5 * min(10, strlen(number)))
}

set multiplot
do for [p = 1:n_panels] {
    eval place
    set format y '%.8g' # steps of losses are small
    set xlabel x_title offset 0,0.4
    set xtics 1
    set xrange [0.8 : n_epochs + 0.2]
    plot for [l = first[p]:first[p] + count[p] - 1] data index l - 1 \
             using 3:4 with linespoints linecolor rgb colour(hues[l]) \
             linewidth 1.5 + 6.5 * thickness[l] \
             pointtype full[1 + shapes[l] % 6] \
             pointsize 0.8 + 1.2 * thickness[l]
}
unset multiplot
