-- What wrk is told beyond its command line, and its figures as one line of JSON.
--
--   wrk -t1 -c32 -d2s -s wrk.lua http://127.0.0.1:3000/upload -- POST 16384 "connection: close"
--
-- There is no function `request` here, so that wrk makes the request once and sends it ever again.
function init(arguments)
  wrk.method = arguments[1]
  local bytes = tonumber(arguments[2])
  if bytes > 0 then wrk.body = string.rep("x", bytes) end
  for i = 3, #arguments do
    local name, value = arguments[i]:match("^([^:]+): ?(.*)$")
    wrk.headers[name] = value
  end
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"answers":%d,"seconds":%.6f,"errors":%d,"p50":%.9f,"p99":%.9f,"longest":%.9f}\n',
    summary.requests, summary.duration / 1e6,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout,
    latency:percentile(50) / 1e6, latency:percentile(99) / 1e6, latency.max / 1e6))
end
