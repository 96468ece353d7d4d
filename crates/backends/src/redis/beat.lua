-- Records the heartbeat of a node, and returns the epoch of the store and the number of live nodes.
--
-- KEYS  nodes  sorted set of nodes, scored by the time of their last heartbeat
--       epoch  name of the period since the store last lost data
-- ARGV  now, or 0 for the server's time; the node; the epoch to replace, or ''; the name of a new
--       epoch, used if there is none; time without a heartbeat after which a node counts as dead
-- Times are in microseconds. Returns {epoch, its age, number of live nodes, now}.

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
