-- One window of one account: takes in what a node has to add or to take back, then decides.
--
-- KEYS  counts  a hash: the life of the window, its totals, and a field for each second that holds something
--       times   a list: when each request was admitted that is counted by its time, oldest first
--       batch   the number of the last batch that was taken in from the node that asks
-- ARGV  now, or 0 for the server's own time; deadline, or 0; the life that the node knows, or ''; the life of a window
--       that is made now; wanted; 1 when it is counted; limit; what may be lent besides; 1 when it is counted by its
--       time; then batches, oldest first: the number of each, how many changes it has, and pairs of second and change
-- Times are in microseconds. Answers {'late', now}, {'lost', now, life}, or
-- {'told', now, life, allowed, granted, second, used, retry_after, reset}.

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
-- The node that asked this has long decided by itself.
if deadline > 0 and now > deadline then
  return { 'late', now }
end

local head = redis.call('HMGET', counts, 'life', 'total', 'oldest', 'newest', 'latest', 'logged')
local life = head[1]
local total, oldest, newest = tonumber(head[2] or 0), tonumber(head[3] or 0), tonumber(head[4] or 0)
local latest, logged = tonumber(head[5] or 0), tonumber(head[6] or 0)
-- A part of it was evicted, or the server's clock was set back: what is left is no window. A time that was given may be
-- that of a message which was overtaken.
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

-- A second counts until it lies a whole minute back.
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

-- A batch that comes twice, because its answer was lost, is taken in once.
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

-- Until this much of what is counted has left.
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
  -- Near the limit little is lent: what one node has and does not use, another may want.
  granted = wanted + math.min(extra, math.floor((free - wanted) / 4))
  -- What is lent may be used up to the end of its time, so it counts from there.
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
