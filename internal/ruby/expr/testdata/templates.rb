# Records what Ruby makes of the expressions in templates.txt, one a line, as JSON lines:
# [expression, value.inspect, record.inspect] or [expression, null, class, message].
# Run: TZ=JST-9 ruby templates.rb < templates.txt > templates.jsonl
require "json"
require "time"
require "socket"
require "securerandom"
require "digest"
require "cgi"
require "uri"
require "base64"
require "zlib"
require "ipaddr"
ENV["X"] = "xv"
ENV.delete("NOPE")
SOURCE = '{"n":5,"s":"str","h":{"k":"v","list":[1,2,{"z":3}]},"b":true,"nil":null,"total":100,"count":10,"f":1.5,"neg":-7,"big":9007199254740993,"tag":"rt","@x":"at","log":"2023-11-14 ERROR [main] Something failed: code=42\n","json":"{\"a\":1,\"b\":[true,null]}","u":"äöü 日本","arr":["b","a","c",null],"labels":{"app.kubernetes.io/name":"web","x":"y"},"empty":"","sp":"  pad  ","csv":"a,b,,c,,"}'
class Clean
  def expand(__s, tag, time, record, tag_parts, tag_prefix, tag_suffix, hostname)
    instance_eval(__s)
  end
end
out, $stdout = $stdout, File.open(IO::NULL, "w")
STDIN.each_line(chomp: true) do |line|
  next if line.empty? || line.start_with?("##")
  record = JSON.parse(SOURCE)
  begin
    v = Clean.new.expand(line, "debug.my.app", Time.at(1700000000, 123456789, :nsec), record, %w(debug my app), ["debug", "debug.my", "debug.my.app"], ["debug.my.app", "my.app", "app"], "h1")
    out.puts JSON.generate([line, v.inspect, record == JSON.parse(SOURCE) ? "" : record.inspect])
  rescue SyntaxError
    STDERR.puts "no Ruby: #{line}"
  rescue StandardError, NotImplementedError => e
    out.puts JSON.generate([line, nil, e.class.to_s, e.message])
  end
end
