# frozen_string_literal: true

# A page: a millisecond of Ruby and a wait of a millisecond, four times, as between the queries of a page.
compute = lambda do |seconds|
  ends = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) + seconds
  nil while Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) < ends
end

run(lambda do |env|
  if env["PATH_INFO"] == "/page"
    4.times do
      compute.call(0.001)
      sleep(0.001)
    end
  end
  [200, {"content-type" => "text/plain"}, ["hello"]]
end)
