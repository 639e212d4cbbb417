# Records what Ruby's Time#strftime gives, one case a line, as JSON:
# [seconds, nanoseconds, zone, layout, result]. Written with Ruby 3.1.2:
#
#   ruby record.rb | gzip -9n > strftime.jsonl.gz
require 'json'
require 'time'
layouts = %w[%Y %C %y %m %B %b %h %d %e %j %H %k %I %l %P %p %M %S %L %N %z %Z %A %a %u %w %G %g %V %U %W %s %n %t %% %c %D %F %v %x %X %r %R %T %+ %Q %q %E %O %i %f %J %K %1 %]
layouts += %w[%Ec %EC %Ex %EX %Ey %EY %Od %Oe %OH %Ok %OI %Ol %Om %OM %OS %Ou %OU %OV %Ow %OW %Oy %Ed %EH %OY %Oc %Oz %Ez]
flags = ['-', '0', '^', '#', '_', ':', '::', ':::', '-0', '0-', '_-', '-_', '^#', '#^', '0_', '_0', '-^', '_^', '0^', '-#', '-:', '_:', '0:', '-::', '_::', '0::', '-:::', '_:::', '0:::']
widths = ['', '1', '2', '3', '4', '5', '6', '8', '10', '12', '20', '30']
letters = "YCymBbhdejHkIlPpMSLNzZAaugGVUWws%ntcDFvxXrRT+".chars.uniq
flags.each { |f| widths.each { |w| letters.each { |l| layouts << "%#{f}#{w}#{l}" } } }
widths.each { |w| letters.each { |l| layouts << "%#{w}#{l}" } }
layouts += ['%-', '%0', '%10', '%^', '%:', '%_5', '%E', '%-5', 'a%b%%c', '100%', '%Y-%m-%dT%H:%M:%S.%3N%:z', '%d/%b/%Y:%H:%M:%S %z', 'plain', '', "é%Y\u3042%m", '%5-d', '%3:z', '%:-z', '%-010d', '%010-d', '%5^a', '%5#p', '%E5d','%-Ey','%^Ec', '%:Y', '%::d', '%${x}', '%-{y}', '%5', '%005d', '%3_d','%3E', '% d', '%.3N', '%+5d', '%10F', '%-F', '%_F', '%^F', '%012F', '%2F', '%_12F', '%-12F', '%_10z', '%_z', '%_5N', '%-N', '%0N','%_N']
zones = ['UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata', 'America/St_Johns', 'Asia/Tokyo', 'America/Sao_Paulo', 'Pacific/Apia', '+09:00', '-00:30', '-03:30', '+12:45:30', '+00:00', '-10:00']
times = [[1700000000, 123456789], [0, 0], [1704067199, 999999999], [1704067200, 1], [1709208000, 5], [951826800, 0], [-1, 999000000], [-2208988800, 10], [1111111111, 100], [1230768000, 0], [1262304000, 0], [1293839999, 0], [1325376000, 0], [1609459200, 0], [1609718400,0], [1640995200, 0], [4102444800, 50000000], [9000000000, 7], [-9000000000, 3]]
def at(sec, nsec, zone)
  if zone == 'UTC' then Time.at(sec, nsec, :nsec).utc
  elsif zone =~ /\A[+-]/ then Time.at(sec, nsec, :nsec).localtime(zone)
  else
    ENV['TZ'] = zone
    t = Time.at(sec, nsec, :nsec).localtime
    t.utc_offset # fix the zone before the environment changes
    t
  end
end
seed = Random.new(7)
n = 0
layouts.uniq.each_with_index do |l, i|
  picks = i < 130 ? times.each_with_index.map { |t, k| [t, zones[k % zones.size]] } : 2.times.map { [times[seed.rand(times.size)], zones[seed.rand(zones.size)]] }
  picks.each do |(sec, nsec), z|
    t = at(sec, nsec, z)
    r = begin t.strftime(l) rescue "ERR #{$!.class}" end
    puts JSON.generate([sec, nsec, z, l, r])
  end
end
# every combination of day and week number over 30 years
(0...30).each { |y| [[1,1],[1,2],[1,3],[1,4],[1,5],[12,28],[12,29],[12,30],[12,31],[2,28],[3,1]].each { |m,d| t = Time.utc(2000+y,m,d,y%24,y*2%60,3); puts JSON.generate([t.to_i, 0, 'UTC', '%G-%V-%g %U %W %j %u %w %a %I %l %p', t.strftime('%G-%V-%g %U %W %j %u %w %a %I %l %p')]) } }
