-- A node says that it is alive, and learns who else is and whether the store still has what it had.
--
-- KEYS  nodes  a sorted set: nodes by the time when they were last heard of
--       epoch  a name for the time since the store last lost something
-- ARGV  now, or 0 for the server's own time; the node; the epoch that has ended, or ''; the epoch that begins if there is
--       none; how long a node that is not heard of counts as alive
-- Times are in microseconds. Answers {epoch, its age, nodes alive, now}.

local SECOND, KEPT = 1000000, 3600000
local now = tonumber(ARGV[1])
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * SECOND + time[2]
end
local epoch = redis.call('GET', KEYS[2])
if not epoch or epoch == ARGV[3] then
  epoch = ARGV[4] .. '.' .. string.format('%.0f', now)
  redis.call('SET', KEYS[2], epoch)
end
redis.call('PEXPIRE', KEYS[2], KEPT)
redis.call('ZADD', KEYS[1], now, ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[5]))
redis.call('PEXPIRE', KEYS[1], KEPT)
local born = tonumber(string.match(epoch, '%.(%d+)$') or 0)
return { epoch, now - born, redis.call('ZCARD', KEYS[1]), now }
