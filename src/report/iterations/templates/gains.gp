# gains.gp - each arm's gain over AUTO against the size
#
# data: a block an arm; columns arm, bytes, gain, low and high ends of its
# interval, gain of the collectives alone (?: none).
# Settings: dodge, the octaves by which an arm stands beside the one before, so
# that their intervals do not hide each other.

set tmargin 3
set label 2 title at screen 0.01,0.965 left \
    font (strlen(title) > 100 ? ',12' : ',15') # may be wider than the axes
set ylabel ylabel
beside(i) = 2.0 ** (dodge * (i - 1 - 0.5 * (n - 1)))
set xrange [first_bytes / 1.25 / beside(n) : last_bytes * 1.25 * beside(n)]
set datafile missing '?'

plot 1 with lines linecolor rgb colour(0) linewidth 2 title 'auto', \
     for [i = 1:has_alone ? n : 0] data index i - 1 using ($2 * beside(i)):\
         (column(has_alone ? 6 : 3)) \
         with linespoints linecolor rgb colour(i) linewidth 1 \
         dashtype (12,8) pointtype full[1 + (i - 1) % 6] - 1 pointsize 1.1 \
         notitle, \
     for [i = 1:n] data index i - 1 using ($2 * beside(i)):3:4:5 \
         with yerrorlines linecolor rgb colour(i) linewidth 2 \
         pointtype full[1 + (i - 1) % 6] pointsize 1.1 title titles[i]
