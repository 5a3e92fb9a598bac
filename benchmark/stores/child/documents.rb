# frozen_string_literal: true

# Documents in a store, and one operation after the other with them. What is read is compared with what was written.
#
#   documents = Documents.new(store, "get", 20_000)
#   documents.prepare          # what is read is there
#   documents.call(7)          # the eighth operation
#   documents.check            # raises if the store does not have what it should
require "json"

class Documents
  SOME = 1_000 # that are read and written again and again
  KEYS = 20 # of a multiget
  STEP = 389 # from one number to the next, so that neighbours are not asked for in turn

  # @param store [Object]
  # @param work [String]
  # @param operations [Integer]
  def initialize(store, work, operations)
    @store = store
    @work = work
    @operations = operations
    @count = each_once? ? operations : SOME
  end

  # @return [void]
  def prepare
    @store.empty
    @store.fill((0...@count).to_h { |number| [key(number), text(number)] }) unless @work == "create"
  end

  # Another operation, that changes nothing that counts.
  # @return [void]
  def warm(number) = @store.get("warm#{number % KEYS}")

  # @param number [Integer] of the operation
  # @return [void]
  # @raise [RuntimeError] if something else was read than was written
  def call(number)
    case @work
    when "create" then @store.set(key(number), text(number))
    when "query" then same(number)
    when "delete" then @store.delete(key(number))
    when "get" then same(number * STEP % SOME)
    when "set" then set(number)
    when "multiget" then several(number)
    when "missing" then @store.get("missing#{number}")&.then { |found| raise "a missing document was found: #{found}" }
    when "mixed" then (number % 10 == 9) ? set(number) : same(number * STEP % SOME)
    end
  end

  # @return [void]
  # @raise [RuntimeError]
  def check
    return absent(@operations - 1) if @work == "delete"
    same((@work == "create") ? @operations - 1 : 0)
  end

  private

  def each_once? = %w[create query delete].include?(@work)

  def key(number) = "document#{number}"

  def text(number) = JSON.generate({id: number, title: "Document #{number}", tags: %w[red green blue], body: "x" * 150, price: number % 1000, sold: number.even?})

  def set(number)
    number = number * STEP % SOME
    @store.set(key(number), text(number))
  end

  def same(number)
    found = @store.get(key(number))
    differ(key(number), found) unless found && equal?(found, text(number))
  end

  def several(number)
    numbers = Array.new(KEYS) { |index| (number * KEYS + index) * STEP % SOME }.uniq
    found = @store.multiget(numbers.map { |one| key(one) })
    raise "#{found.size} of #{numbers.size} documents were found" unless found.size == numbers.size
    differ(key(numbers.last), found[key(numbers.last)]) unless equal?(found[key(numbers.last)], text(numbers.last))
  end

  def absent(number) = @store.get(key(number))&.then { |found| raise "a deleted document was found: #{found}" }

  # A database may order and space JSON anew.
  def equal?(one, other) = one == other || JSON.parse(one) == JSON.parse(other)

  def differ(key, found) = raise("#{key}: #{found.inspect} was read, which is not what was written")
end
