# times.gp - how the iterations of each arm spread
#
# data: a block an arm; columns arm, time, share.

set tmargin 3
set label 2 title at screen 0.01,0.965 left \
    font (strlen(title) > 100 ? ',12' : ',15') # may be wider than the axes
set key title 'Arm, median'
set xlabel xlabel
set ylabel ylabel
set xrange [x_low : x_high]
set yrange [0 : *]

plot data index 0 using 2:3 with fillsteps \
         linecolor rgb colour(0) fillstyle transparent solid 0.12 noborder \
         notitle, \
     for [i = 1:n] data index i - 1 using 2:3 with steps \
         linecolor rgb colour(i - 1) linewidth i == 1 ? 3 : 2 title titles[i]
