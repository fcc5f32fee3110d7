-- For wrk: sends the requests of a file of targets in turn, and prints a line of JSON at the end.
-- Arguments: the file, the method, the size of the body in bytes, the number of the target to begin behind.
local requests = {}
local at = 0

function init(arguments)
  at = tonumber(arguments[4])
  local size = tonumber(arguments[3])
  local body = size > 0 and string.rep("x", size) or nil
  for target in io.lines(arguments[1]) do
    requests[#requests + 1] = wrk.format(arguments[2], target, nil, body)
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end

function done(summary, latency)
  local errors = summary.errors
  print(string.format(
    '{"count":%d,"seconds":%f,"refused":%d,"failed":%d,"p50":%f,"p99":%f,"p999":%f}',
    summary.requests, summary.duration / 1e6, errors.status, errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, latency:percentile(99.9) / 1e3))
end
