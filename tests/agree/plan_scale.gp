# plan_scale.gp - draws fixtures/reports/plan_scale.csv, after
# src/report/charts/templates/frame.gp; from the top of the tree:
#
#   gnuplot -e "format = 'svg'; source = ''; n_rows = 2" \
#       src/report/charts/templates/frame.gp tests/agree/plan_scale.gp

set datafile separator comma
set datafile columnheaders
table = 'fixtures/reports/plan_scale.csv'

# a row's value if it is of that store, of 1000 calls/s, and of the default lead
of(latency, request, arrive, name) = \
    column('calls_per_s') == 1000 && column('lead') == 1000 && \
    column('latency_us') == latency && \
    column('request_us') == request && column('arrive_us') == arrive ? \
    column(name) : NaN

set label 1 'modelled: the code of all hosts in virtual time, a modelled ' . \
    'store and network (tests/agree/plan_scale.cc)'
set logscale x 2
set xrange [13 : 20000]
set xtics ('16' 16, '64' 64, '512' 512, '2,048' 2048, '8,192' 8192, \
           '16,384' 16384)
set logscale y 10
set lmargin at screen 0.08
set rmargin at screen 0.67
set multiplot

set tmargin at screen 0.94
set bmargin at screen 0.59
set key at screen 0.69,0.94 left top
set title 'From a proposal until all hosts know the verdict'
set ylabel 'Virtual time (ms)'
y_low = 5
y_high = 10000
eval log_axis
plot table using 'ranks':(of(200000, 10, 0, 'known_virtual_ms')) \
         with linespoints linewidth 2 pointtype 9 linecolor rgb colour(2) \
         title 'store 200 ms away, lead doubled', \
     2000 with lines dashtype 2 linecolor rgb '#666666' \
         title 'ranks come to the first plan', \
     table using 'ranks':(of(50, 100, 0, 'known_virtual_ms')) \
         with linespoints linewidth 2 pointtype 5 linecolor rgb colour(1) \
         title 'store takes 100 us a request', \
     table using 'ranks':(of(50, 10, 0, 'known_virtual_ms')) \
         with linespoints linewidth 2 pointtype 7 linecolor rgb colour(0) \
         title 'store takes 10 us a request'

set label 1 ''
set tmargin at screen 0.47
set key at screen 0.69,0.47 left top
set bmargin at screen 0.145
set title 'Messages to the store, of all hosts'
set xlabel 'Ranks (8 a host)'
set ylabel 'Messages'
y_low = 10
y_high = 100000
eval log_axis
plot table using 'ranks':(of(50, 10, 1000000, 'compare_messages')) \
         with linespoints linewidth 2 pointtype 13 linecolor rgb colour(3) \
         title 'compare, hosts come within 1 s', \
     table using 'ranks':(of(50, 10, 0, 'compare_messages')) \
         with linespoints linewidth 2 pointtype 5 linecolor rgb colour(5) \
         title 'compare, hosts come at once', \
     table using 'ranks':(of(50, 10, 0, 'plan_messages')) \
         with linespoints linewidth 2 pointtype 7 linecolor rgb colour(0) \
         title 'a plan'
unset multiplot
