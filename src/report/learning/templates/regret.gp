# regret.gp - time lost while learning
#
# data: a block per message; columns message, seconds, milliseconds lost, whether
# it settled then.

set title title font ',15'
set xrange [0 : *]
set xlabel 'Time since the first line (s)'
set ylabel 'Time lost against the best choice (ms)'

plot 0 with lines linecolor rgb '#666666' notitle, \
     for [i = 1:n] data index i - 1 using 2:3 with steps \
         linecolor rgb colour(i) linewidth 2 title titles[i], \
     for [i = 1:n_settled] data index settled[i] - 1 \
         using 2:($4 > 0 ? $3 : NaN) with points pointtype 7 pointsize 1.5 \
         linecolor rgb colour(settled[i]) notitle, \
     for [i = 1:n_settled > 0] NaN with points pointtype 7 pointsize 1.5 \
         linecolor rgb '#666666' title 'settled'
