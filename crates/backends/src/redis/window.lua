-- Applies the changes of a node to one window of one account, then decides a request.
--
-- KEYS  counts  hash of the window: its generation (`life`), its totals, and the count of each
--               non-empty second
--       times   list of the admission times of requests that are counted by time, oldest first
--       batch   number of the last batch that was applied for this node
-- ARGV  now, or 0 for the server's time; deadline, or 0 for none; the node's last known generation,
--       or ''; the generation of a new window; the wanted amount; 1 to count it; the limit; the
--       maximum amount lent in addition; 1 to count the request by time; then batches, oldest
--       first: the number of each, the number of its changes, and pairs of second and change
-- Times are in microseconds. Returns {'late', now}, {'lost', now, generation}, or
-- {'told', now, generation, allowed, granted, second, used, retry_after, reset}.

local SECOND, WINDOW, LENT, KEPT, MOST = 1000000, 60000000, 1000000, 120000, 2 ^ 50
local counts, times, batch = KEYS[1], KEYS[2], KEYS[3]
local wanted, counted, limit = tonumber(ARGV[5]), ARGV[6] == '1', tonumber(ARGV[7])
local extra, by_time, tells = tonumber(ARGV[8]), ARGV[9] == '1', #ARGV > 9

local now, deadline = tonumber(ARGV[1]), tonumber(ARGV[2])
local is_own_time = now == 0
if is_own_time then
  local time = redis.call('TIME')
  now = time[1] * SECOND + time[2]
end
-- The node stopped waiting before the deadline and has decided locally.
if deadline > 0 and now > deadline then
  return { 'late', now }
end

local head = redis.call('HMGET', counts, 'life', 'total', 'oldest', 'newest', 'latest', 'logged')
local life = head[1]
local total, oldest, newest = tonumber(head[2] or 0), tonumber(head[3] or 0), tonumber(head[4] or 0)
local latest, logged = tonumber(head[5] or 0), tonumber(head[6] or 0)
-- The window is invalid if the server evicted a part of it, or if the server's clock was set back.
-- A time in ARGV may be earlier than `latest`, because messages can overtake each other.
if life and (redis.call('LLEN', times) ~= logged or (is_own_time and now + SECOND < latest)) then
  redis.call('DEL', counts)
  life = false
end
if not life then
  total, oldest, newest, latest, logged = 0, 0, 0, now, 0
  redis.call('DEL', times)
  if counted or tells or ARGV[3] ~= '' then
    life = ARGV[4]
    redis.call('HSET', counts, 'life', life, 'latest', now)
    redis.call('PEXPIRE', counts, KEPT)
  end
end
if ARGV[3] ~= '' and ARGV[3] ~= life then
  return { 'lost', now, life }
end
now = math.max(now, latest)

-- A second counts until all of it is at least a minute old.
local running = math.floor(now / SECOND)
local left = running - 61
if oldest > 0 and oldest <= left then
  local seconds = {}
  for second = oldest, math.min(left, newest) do
    seconds[#seconds + 1] = second
  end
  for _, count in ipairs(redis.call('HMGET', counts, unpack(seconds))) do
    total = total - (tonumber(count or 0))
  end
  redis.call('HDEL', counts, unpack(seconds))
  oldest = left + 1
  if oldest > newest then
    oldest, newest = 0, 0
  end
end
while logged > 0 and tonumber(redis.call('LINDEX', times, 0)) + WINDOW <= now do
  redis.call('LPOP', times)
  logged = logged - 1
end

local function add(second, change)
  second = math.min(second, running + 2)
  if second <= left then
    return
  end
  local was = tonumber(redis.call('HGET', counts, second) or 0)
  local is = math.min(math.max(0, was + change), MOST)
  total = total + is - was
  if is == 0 then
    redis.call('HDEL', counts, second)
    return
  end
  redis.call('HSET', counts, second, is)
  newest = math.max(newest, second)
  if oldest == 0 or second < oldest then
    oldest = second
  end
end

-- A batch that is resent because its reply was lost is applied only once.
if tells then
  local last, place = tonumber(redis.call('GET', batch) or 0), 10
  while place < #ARGV do
    local number, first = tonumber(ARGV[place]), place + 2
    place = first + 2 * tonumber(ARGV[place + 1])
    if number > last then
      for change = first, place - 1, 2 do
        add(tonumber(ARGV[change]), tonumber(ARGV[change + 1]))
      end
      last = number
    end
  end
  redis.call('SET', batch, last, 'PX', KEPT)
  while newest >= oldest and newest > 0 and redis.call('HEXISTS', counts, newest) == 0 do
    newest = newest - 1
  end
  if newest < oldest or newest == 0 then
    oldest, newest = 0, 0
  end
end

-- Returns the time until `amount` of the counted amount has left the window.
local function until_left(amount)
  local entries, at, gone = {}, 1, 0
  if logged > 0 then
    entries = redis.call('LRANGE', times, 0, math.min(logged, amount) - 1)
  end
  if oldest > 0 then
    local seconds = {}
    for second = oldest, newest do
      seconds[#seconds + 1] = second
    end
    for place, count in ipairs(redis.call('HMGET', counts, unpack(seconds))) do
      local leaves = (seconds[place] + 61) * SECOND
      while entries[at] and tonumber(entries[at]) + WINDOW <= leaves do
        gone = gone + 1
        if gone >= amount then
          return tonumber(entries[at]) + WINDOW - now
        end
        at = at + 1
      end
      gone = gone + tonumber(count or 0)
      if gone >= amount then
        return leaves - now
      end
    end
  end
  local last = entries[at + amount - gone - 1]
  return last and tonumber(last) + WINDOW - now or WINDOW
end

local used = total + logged
local free = limit - used
local allowed, granted, second, retry_after = wanted <= free, 0, running, 0
if not allowed then
  retry_after = WINDOW
  if wanted <= limit then
    retry_after = until_left(wanted - free)
  end
elseif counted and by_time then
  redis.call('RPUSH', times, now)
  granted, logged = wanted, logged + 1
elseif counted and wanted > 0 then
  -- A loan is at most a quarter of the free amount, so that other nodes can borrow near the limit.
  granted = wanted + math.min(extra, math.floor((free - wanted) / 4))
  -- A loan can be used until it expires, so it counts in the second of its expiry.
  if granted > wanted then
    second = math.floor((now + LENT) / SECOND)
  end
  add(second, granted)
end
used = total + logged

local reset = 0
if newest > 0 then
  reset = (newest + 61) * SECOND - now
end
if logged > 0 then
  reset = math.max(reset, tonumber(redis.call('LINDEX', times, -1)) + WINDOW - now)
end
if life then
  redis.call('HSET', counts, 'total', total, 'oldest', oldest, 'newest', newest, 'latest', now, 'logged', logged)
  redis.call('PEXPIRE', counts, KEPT)
  redis.call('PEXPIRE', times, KEPT)
end
return { 'told', now, life or '', allowed and 1 or 0, granted, second, used, retry_after, reset }
