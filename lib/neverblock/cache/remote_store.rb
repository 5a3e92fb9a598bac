# frozen_string_literal: true

require "digest"
require "securerandom"
require "timeout"
require_relative "entry_format"
require_relative "guarded"
require_relative "leases"
require_relative "limits"
require_relative "patience"

module NeverBlock
  class Cache
    # Keeps entries in a server that several hosts share. What is particular to a server is its client's matter:
    # {RemoteStore::Redis}, {RemoteStore::Memcached}, {RemoteStore::Postgres}, {ActiveSupportStore}.
    #
    #   store = Stores.open("redis://cache.internal:6379/0?namespace=shop")
    #   store.read("https://example.org/")    # => [entry]
    #
    # The values are Strings in the format of {EntryFormat}, never objects that would be unmarshalled by us. Purges need
    # no list of what is stored: a key, each tag and the whole have a record with a random text (its mark), an entry has
    # the marks of the time before its fetch, and one whose marks are not those of now is not read. So a purge is exact
    # as far as the server is: what was written is read from then on. Its limits:
    #
    # - `purge_tag` and `clear` return 0: the entries are not counted, and leave when the server evicts or expires them.
    # - If the server loses a mark, the entries with it are not read any more. Replicas that lag behind, or a server
    #   that comes back with older data, show purged entries again.
    # - `stats` does not know what is stored.
    #
    # Each operation has a deadline. After one that took too long, or found no server, the server is not asked for some
    # seconds ({Patience}). The caller gets a value as if there were no entry.
    # @api private
    class RemoteStore
      include Guarded

      autoload :Redis, "#{__dir__}/remote_store/redis"
      autoload :Memcached, "#{__dir__}/remote_store/memcached"
      autoload :Postgres, "#{__dir__}/remote_store/postgres"

      # The names of a key's entries, and, where the server has no lists, of the list of them.
      Shelf = Struct.new(:entries, :index)

      # Whatever a client raises.
      TROUBLE = [StandardError].freeze
      NONE = [].freeze
      # A mark could not be read: nothing that was fetched since is stored.
      UNKNOWN = :unknown
      NAMESPACE = /\A[A-Za-z0-9][A-Za-z0-9._-]{0,99}\z/
      private_constant :NONE, :NAMESPACE

      # The server has taken too long of late, or there was none.
      class Unresponsive < StandardError
        include Error
      end

      # The server has not taken a record.
      class Unwritten < StandardError
        include Error
      end

      # @param client [KeyValue, #look]
      # @param place [String] the server, in messages
      # @param namespace [String] of an app
      # @param max_entry [Integer, String] bytes of one entry
      # @param timeout [Numeric, nil] seconds of one operation; nil: the client has a limit of its own
      # @param lease [Numeric] seconds for which one host at most fetches a response; 0: hosts do not wait for each
      #   other
      # @param lease_wait [Numeric] seconds that a host waits for another one's fetch
      # @param log [#call, nil] gets a line when something goes wrong for the first time
      # @param patience [Patience, nil]
      # @param limits [Hash] see {Limits#initialize}
      # @raise [ConfigurationError]
      def initialize(client, place:, namespace: "default", max_entry: 1_000_000, timeout: nil, lease: 0, lease_wait: 0,
        log: nil, patience: nil, **limits)
        unless String === namespace && NAMESPACE.match?(namespace)
          raise ConfigurationError, "namespace: #{namespace.inspect} is not a name of at most 100 letters, digits, " \
            "\".\", \"_\" and \"-\""
        end
        @client = client
        @prefix = "neverblock:#{namespace}:"
        @limits = Limits.new(bytes: ValueType::LARGEST_BYTES, max_entry:, **limits)
        @timeout = timeout
        @closed = false
        # With a deadline, one that comes late in spite of it says nothing about the server.
        @patience = patience || (timeout ? Patience.new(long: Float::INFINITY) : Patience.new)
        @suspected_at = nil
        @leases = Leases.new(self, seconds: lease, wait: lease_wait) if lease.positive?
        guard(log, place)
      end

      # @return [Leases, nil] nil: hosts do not wait for each other
      attr_reader :leases

      # @return [Integer] bytes of the largest entry that is stored
      def max_entry = @limits.max_entry

      # @param key [String]
      # @param entry [Entry]
      # @return [Boolean] whether it is neither too large nor unsafe
      def fit?(key, entry) = @limits.fit?(key, entry)

      # @return [Boolean] whether the server is not asked now
      def resting? = @patience.rests?

      # @param key [String]
      # @yieldparam variant [String] start of an entry's {Entry#variant}
      # @yieldreturn [Boolean] whether it is wanted; others are left out
      # @return [Array<Entry>] the newest first
      def read(key, &wanted)
        return NONE if @closed || distrusted?
        attempt(NONE) do
          marks, texts = ask { @client.look(shelf(key), marks_of(key), &wanted) }
          next NONE unless marks.all?
          stored = texts.filter_map { |variant, text| parse(key, variant, text) }
          stored.select! { |parsed, _, _| marks == parsed.marks.values_at("all", "key") }
          newest(key, unpurged(stored))
        end
      end

      # The server has its own idea of what is used.
      # @return [void]
      def touch(_key, _entry) = nil

      # @param key [String]
      # @return [Object] to be given to {#write}, on any host; taken before a fetch begins. It stays equal until a purge
      #   that may concern the key
      def generation(key)
        attempt(UNKNOWN) do
          marks = marks([*marks_of(key), name("tags")])
          marks.all? ? marks.freeze : UNKNOWN
        end
      end

      # Replaces the entry with equal `vary`.
      # @param key [String]
      # @param entry [Entry]
      # @param generation [Object, nil] as of {#generation}; nil: that of now
      # @return [Boolean] false: it is too large, or was purged since, or the server failed
      def write(key, entry, generation: nil)
        return refuse if @closed || !trusted? || !fit?(key, entry)
        generation ||= generation(key)
        return refuse unless Array === generation && generation.size == 3 && generation.all?(String)
        stored = attempt(false) { put(key, entry, generation) } || refuse
        attempt(nil) { @client.tidy } if stored && @client.respond_to?(:tidy)
        stored
      end

      # @param key [String]
      # @return [Integer] number of entries removed
      def purge(key)
        return 0 if hopeless?
        purging do
          renew(marks_of(key).last)
          # What can't be deleted is not read any more nevertheless.
          attempt(0) { ask { @client.remove(shelf(key)) } }
        end
      end

      # @param tag [String]
      # @return [Integer] 0: they are not counted
      def purge_tag(tag)
        return 0 if hopeless?
        purging do
          renew(name("tags")) # first: see #put
          renew(tag_name(tag))
          0
        end
      end

      # @return [Integer] 0: they are not counted
      def clear
        purging do
          renew(name("all"))
          trust
          0
        end
      end

      # Asks to be the one that fetches.
      # @param what [String] a name for what is fetched
      # @param seconds [Numeric] after which another one may have it
      # @return [Array(Boolean, Object), nil] whether it is this one, and a token of the one that it is; nil: not known
      def lease(what, seconds)
        return if @closed || resting?
        attempt(nil) { ask { @client.lease(lease_name(what), seconds) } }
      end

      # @param what [String]
      # @param token [Object]
      # @return [void]
      def release(what, token)
        return if resting? # it ends by itself
        attempt(nil) { ask { @client.release(lease_name(what), token) } }
        nil
      end

      # What was seen of a key a moment ago does not count any more. Here all is asked for again in any case.
      # @return [void]
      def look_again(_key) = nil

      # @return [Hash{Symbol=>Integer, nil}] nil: unknown
      def stats
        {entries: nil, keys: nil, bytes: nil, limit: nil, evicted: nil, refused: @refused, errors: @errors}
      end

      # Nothing is read and stored from now on. The entries stay.
      # @return [void]
      def close
        return if @closed
        @closed = true
        @client.close
        nil
      end

      # @return [String]
      def inspect = "#<#{self.class.name} #{@guarded}>"

      private

      # A purge of a tag renews the mark of all tags first, and then the tag's. If it renews the tag's before that is
      # read here, the mark of all tags is not that of before the fetch. If it does so afterwards, the entry has the old
      # mark of the tag, and is not read. The other two marks are those of before the fetch in any case.
      def put(key, entry, generation)
        all, of_key, of_tags = generation
        names = entry.tags.map { |tag| tag_name(tag) }
        marks = {"all" => all, "key" => of_key, **names.zip(marks(names)).to_h}
        return false unless marks.values.all?
        return false unless values(marks_of(key)) == [all, of_key]
        return false unless names.empty? || values([name("tags")]) == [of_tags]
        text = "".b
        EntryFormat.each(key, entry, marks:) { |string| text << string }
        ask { @client.put(shelf(key), entry.variant[0, 32], text, @limits.max_variants) }
      end

      # @return [Array(EntryFormat::Parsed, EntryFormat::Text, String), nil]
      def parse(key, variant, text)
        raise EntryFormat::Malformed, "a #{text.class} is stored for an entry" unless String === text
        source = EntryFormat::Text.new(text.b)
        parsed = EntryFormat.parse(source)
        raise EntryFormat::Malformed, "an entry of another key" unless parsed.key == key
        [parsed, source, variant]
      rescue EntryFormat::Malformed => error
        discard(key, variant, error)
      end

      def unpurged(stored)
        names = stored.flat_map { |parsed, _, _| tag_names(parsed) }.uniq
        return stored if names.empty?
        now = names.zip(values(names)).to_h
        stored.select { |parsed, _, _| tag_names(parsed).all? { |name| now[name] && now[name] == parsed.marks[name] } }
      end

      def newest(key, stored)
        entries = stored.filter_map do |parsed, source, variant|
          blocks = EntryFormat.blocks(parsed.body_size)
          parsed.entry(Array.new(blocks) { |index| EntryFormat.block(source, parsed, index) })
        rescue EntryFormat::Malformed => error
          discard(key, variant, error)
        end
        entries.sort_by.with_index { |entry, index| [-entry.responded_at, index] }.freeze
      end

      # What is damaged would be read again and again.
      def discard(key, variant, error)
        trouble(error)
        return if EntryFormat::Early === error # it may be right for all other hosts
        attempt(nil) { ask { @client.discard(shelf(key), variant) } }
        nil
      end

      # The tags of the entry itself, not those that it has marks of.
      def tag_names(parsed) = parsed.fields.attributes[:tags].map { |tag| tag_name(tag) }

      def name(name) = "#{@prefix}#{name}"

      def shelf(key)
        digest = Digest::SHA256.hexdigest(key)
        Shelf.new(name("e:#{digest}"), name("i:#{digest}"))
      end

      def tag_name(tag) = name("t:#{Digest::SHA256.hexdigest(tag)}")

      def lease_name(what) = name("l:#{Digest::SHA256.hexdigest(what)}")

      def marks_of(key) = [name("all"), name("k:#{Digest::SHA256.hexdigest(key)}")]

      # The marks of all entries stay: without them nothing could be read.
      def lasting?(name) = name == "#{@prefix}all" || name == "#{@prefix}tags"

      # @return [Array<String, nil>] those that are missing are made; another process may make them at the same time
      def marks(names)
        found = values(names)
        missing = names.zip(found).reject(&:last).map(&:first)
        return found if missing.empty?
        missing.each { |name| ask { @client.add(name, SecureRandom.hex(16), lasting: lasting?(name)) } }
        values(names)
      end

      def renew(name)
        return if ask { @client.set(name, SecureRandom.hex(16), lasting: lasting?(name)) }
        raise Unwritten, "the server has not taken the record of a purge"
      end

      def values(names) = names.empty? ? [] : ask { @client.values(names) }

      # One operation.
      def ask(&)
        raise Unresponsive, "the server has failed, and is not asked for some seconds" if @patience.over?
        began = now
        value = @patience.watch(->(error) { failure?(error, began) }) { within(@timeout, &) }
        @suspected_at = nil
        value
      end

      # A timeout of the caller may end an operation as well, before its own. And if a busy loop has kept the process
      # from looking in time, the server may have responded: only the second time in a row, that counts.
      def failure?(error, began)
        return @client.failure?(error) unless @timeout && Timeout::Error === error
        late = now - began - @timeout
        return late > -@timeout / 10.0 if late < @timeout / 2.0
        before, @suspected_at = @suspected_at, now
        !before.nil? && began >= before
      end

      def within(seconds, &)
        return yield unless seconds
        @client.respond_to?(:within) ? @client.within(seconds, &) : Timeout.timeout(seconds, &)
      end

      # The store will be emptied before it is read, and the server is not there.
      def hopeless? = distrusted? && resting?

      # A purge is tried in any case.
      def purging
        @patience.renew
        super
      end
    end
  end
end
