# frozen_string_literal: true

require "neverblock/cache"

module NeverBlockTest
  # What every store of the cache does. A test class includes it and has
  #
  #   def new_store(**options)      # `bytes:` and the like
  #   def counts?                   # whether it counts what it removes by tag, and what is stored
  module CacheStoreContract
    KEY = "https://example.org/a?b=c"
    OTHER = "https://example.org/b"
    TIME = 1_760_000_000.25

    # What stores do that have an option `namespace:`.
    module Namespaces
      def test_each_namespace_is_a_store_of_its_own
        store.write(KEY, entry("one"))
        other = new_store(namespace: "#{@namespace}another")
        assert_equal [], other.read(KEY)
        other.clear
        assert_equal ["one"], bodies(KEY)
      end
    end

    def test_what_is_written_is_read
      entry = entry("hello", headers: {"content-type" => "text/plain", "link" => ["<a>", "<b>"].freeze}, tags: %w[news front])
      assert_equal true, store.write(KEY, entry)
      found = only(store.read(KEY))
      assert_equal ["hello", 200, TIME, TIME + 0.5], [body(found), found.status, found.requested_at, found.responded_at]
      assert_equal({"content-type" => "text/plain", "link" => ["<a>", "<b>"]}, found.headers)
      assert_equal [[["accept-language", "de"], ["x", nil]], %w[news front], 5], [found.vary, found.tags, found.body_size]
      assert_equal [[], []], [store.read(OTHER), store.read("")]
    end

    def test_bodies_of_all_lengths_are_read_as_they_were
      [0, 1, 65_535, 65_536, 65_537, 200_000].each do |length|
        bytes = Random.new(length).bytes(length)
        assert store.write("#{KEY}#{length}", entry(bytes.scan(/.{1,50000}/mn)))
        found = only(store.read("#{KEY}#{length}"))
        assert_equal [length, bytes.hash], [found.body_size, body(found).hash]
        [0..0, 10..20, 65_000..66_000, 65_536..65_536, 0..(length - 1)].each do |range|
          expected = bytes[range].to_s
          assert_equal expected, found.slice(range).to_a.join, "#{range} of #{length}" if range.end < length
        end
      end
    end

    def test_bytes_of_any_encoding_are_kept
      texts = ["\u00e4\u20ac", "\xff\xfe\x80".b, "\u00e4".b, "ascii"]
      texts.each do |text|
        key = "#{KEY}#{text}".b
        store.write(key, entry("\xff\x00".b, headers: {"x" => text}, vary: [["y", text]], tags: [text]))
        found = only(store.read(key))
        assert_equal [text] * 3, [found.headers["x"], found.vary[0][1], found.tags[0]]
        assert_equal text.encoding, found.headers["x"].encoding unless text.ascii_only?
        assert_equal "\xff\x00".b, body(found)
      end
    end

    def test_an_entry_for_the_same_requests_replaces_the_older_one
      store.write(KEY, entry("old"))
      store.write(KEY, entry("new"))
      assert_equal ["new"], bodies(KEY)
      assert_equal [1, 1], store.stats.values_at(:entries, :keys) if counts?
    end

    def test_the_newest_variant_is_first
      [[2, "b"], [3, "c"], [1, "a"]].each { |age, text| store.write(KEY, entry(text, vary: [["x", text]], at: TIME + age)) }
      assert_equal %w[c b a], bodies(KEY)
      assert_equal [3, 1], store.stats.values_at(:entries, :keys) if counts?
    end

    def test_a_header_that_is_missing_is_not_one_that_is_empty
      [nil, "", "-"].each { |value| store.write(KEY, entry("v#{value.inspect}", vary: [["x", value]])) }
      assert_equal ["v\"\"", "v\"-\"", "vnil"], bodies(KEY).sort
    end

    def test_no_more_variants_than_allowed
      with(max_variants: 3)
      7.times { |number| store.write(KEY, entry(number.to_s, vary: [["x", number.to_s]], at: TIME + number)) }
      assert_equal 3, store.read(KEY).size
      assert_equal "6", bodies(KEY).first
    end

    def test_a_purge_removes_all_variants_of_a_key
      2.times { |number| store.write(KEY, entry("x", vary: [["x", number.to_s]])) }
      store.write(OTHER, entry("other"))
      assert_equal 2, store.purge(KEY)
      assert_equal [[], ["other"]], [bodies(KEY), bodies(OTHER)]
      assert_equal [0, 0], [store.purge(KEY), store.purge("nothing")]
      assert_equal [1, 1], store.stats.values_at(:entries, :keys) if counts?
    end

    def test_a_purge_by_tag
      store.write(KEY, entry("1", vary: [["x", "1"]], tags: %w[a b]))
      store.write(KEY, entry("2", vary: [["x", "2"]], tags: %w[b]))
      store.write(OTHER, entry("3", tags: %w[a]))
      assert_equal counted(2), store.purge_tag("a")
      assert_equal [["2"], []], [bodies(KEY), bodies(OTHER)]
      assert_equal [1, 1], store.stats.values_at(:entries, :keys) if counts?
      assert_equal counted(1), store.purge_tag("b")
      assert_equal [[], 0], [bodies(KEY), store.purge_tag("c")]
    end

    def test_tags_of_an_entry_that_was_replaced_count_no_longer
      store.write(KEY, entry("1", tags: %w[a]))
      store.write(KEY, entry("2", tags: %w[b]))
      assert_equal 0, store.purge_tag("a")
      assert_equal ["2"], bodies(KEY)
    end

    def test_all_is_cleared
      store.write(KEY, entry("1", tags: %w[a]))
      store.write(OTHER, entry("2"))
      assert_equal counted(2), store.clear
      assert_equal [[], []], [bodies(KEY), bodies(OTHER)]
      assert_equal [0, 0, 0], store.stats.values_at(:entries, :keys, :bytes) if counts?
      assert store.write(KEY, entry("3"))
      assert_equal ["3"], bodies(KEY)
    end

    # By what happens between the two.
    def test_what_was_fetched_before_a_purge_is_not_stored
      {
        "the key" => [false, ->(store) { store.purge(KEY) }],
        "a tag" => [false, ->(store) { store.purge_tag("b") }],
        "everything" => [false, ->(store) { store.clear }],
        "nothing" => [true, ->(_store) {}],
        "a write" => [true, ->(store) { store.write(KEY, entry("between")) }]
      }.each do |what, (stored, change)|
        before = store.generation(KEY)
        change.call(store)
        assert_equal stored, store.write(KEY, entry("late", tags: %w[a b]), generation: before), what
        assert_equal stored, bodies(KEY).include?("late"), what
        assert store.write(KEY, entry("newer", tags: %w[a b]), generation: store.generation(KEY)), "after #{what}"
      end
    end

    def test_a_generation_is_equal_until_a_purge
      before = store.generation(KEY)
      store.write(KEY, entry("x", tags: %w[a]))
      assert_equal before, store.generation(KEY)
      [-> { store.purge(KEY) }, -> { store.purge_tag("a") }, -> { store.clear }].each do |purge|
        before = store.generation(KEY)
        purge.call
        refute_equal before, store.generation(KEY)
        assert_equal store.generation(KEY), store.generation(KEY)
      end
    end

    def test_a_generation_of_anything_else_is_too_old
      [Object.new, "x", [], ["x", 1], -1, [nil, nil, nil], "false"].each do |generation|
        refute store.write(KEY, entry("x"), generation:), generation.inspect
      end
      assert_equal [], store.read(KEY)
    end

    # Refused as a whole: nothing is shortened.
    def test_what_is_too_large_or_unsafe_is_refused
      with(max_entry: 300_000, max_tags: 3, max_key: 100, max_headers: 1_000)
      {
        "a long body" => [KEY, entry("x" * 300_001)],
        "a long key" => ["k" * 101, entry("x")],
        "many tags" => [KEY, entry("x", tags: %w[a b c d])],
        "a long tag" => [KEY, entry("x", tags: ["t" * 257])],
        "an empty tag" => [KEY, entry("x", tags: [""])],
        "long headers" => [KEY, entry("x", headers: {"a" => "x" * 500, "b" => ["x" * 500]})],
        "long values of the request" => [KEY, entry("x", vary: [["x", "y" * 1_001]])],
        "many headers of the request" => [KEY, entry("x", vary: Array.new(129) { |number| ["x#{number}", nil] })],
        "a line break" => [KEY, entry("x", headers: {"a" => "b\r\nset-cookie: c=d"})],
        "a line break in a list" => [KEY, entry("x", headers: {"a" => ["b", "c\nd"]})],
        "a line break in broken bytes" => [KEY, entry("x", headers: {"a" => "\xff\n"})],
        "a name that is none" => [KEY, entry("x", headers: {"a b" => "c"})],
        "a name in broken bytes" => [KEY, entry("x", headers: {"a\xff" => "c"})],
        "no status" => [KEY, entry("x", status: 0)],
        "a Vary that nothing matches" => [KEY, entry("x", vary: [["*", Object.new]])],
        "no key" => [nil, entry("x")]
      }.each do |what, (key, entry)|
        assert_equal false, store.write(key, entry), what
      end
      assert_equal [], store.read(KEY)
      assert_equal 16, store.stats[:refused]
    end

    def test_statistics
      store.write(KEY, entry("x" * 1_000))
      stats = store.stats
      assert_equal %i[entries keys bytes limit evicted refused errors], stats.keys
      assert_equal [0, 0], stats.values_at(:refused, :errors)
      assert_operator stats[:bytes], :>, 1_000 if counts?
    end

    def test_an_entry_stays_readable_when_it_is_removed
      bytes = Random.bytes(300_000)
      store.write(KEY, entry(bytes))
      found = only(store.read(KEY))
      part = found.slice(100_000..299_999)
      store.purge(KEY)
      store.clear
      assert_equal [bytes.hash, bytes[100_000..].hash], [body(found).hash, part.to_a.join.hash]
    end

    def test_a_renewed_entry_has_the_same_body
      bytes = Random.bytes(150_000)
      store.write(KEY, entry(bytes, headers: {"etag" => "a"}, tags: %w[a]))
      old = only(store.read(KEY))
      assert store.write(KEY, old.renewed(headers: {"etag" => "b"}, requested_at: TIME + 7, responded_at: TIME + 8))
      found = only(store.read(KEY))
      assert_equal [bytes.hash, "b", TIME + 8, %w[a]], [body(found).hash, found.headers["etag"], found.responded_at, found.tags]
      assert_equal bytes.hash, body(old).hash
    end

    def test_nothing_is_read_and_stored_after_its_end
      store.write(KEY, entry("x"))
      store.close
      assert_equal [[], false], [store.read(KEY), store.write(KEY, entry("y"))]
    end

    def test_tasks_and_threads_at_once
      texts = Array.new(6) { |number| number.to_s * 70_000 }
      work = lambda do |number|
        30.times do |round|
          key = "#{KEY}#{(number + round) % 3}"
          case round % 6
          when 0 then store.purge(key)
          when 3 then store.purge_tag("t#{number % 2}")
          else store.write(key, entry(texts[number], vary: [["x", (round % 2).to_s]], tags: ["t#{number % 2}"]), generation: store.generation(key))
          end
          store.read(key).each { |found| assert_includes texts, body(found) }
        end
      end
      threads = Array.new(3) { |number| Thread.new { work.call(number) } }
      NeverBlock.run { |scope| 3.times { |number| scope.spawn { work.call(3 + number) } } }
      threads.each(&:value)
      assert_equal 0, store.stats[:errors], @lines unless fails_at_times?
      store.clear
      assert_equal [0, 0, 0], store.stats.values_at(:entries, :keys, :bytes) if counts?
    end

    # Whether what is beneath the store fails when several threads use it.
    def fails_at_times? = false

    private

    # Each object costs a collection of all that is loaded, so it is a program of its own.
    # @param code [String] makes `store`
    def assert_stressed(code)
      assert_ruby(<<~RUBY)
        require "neverblock/cache"
        #{code}
        new = NeverBlock::Cache::Entry.new(status: 200, headers: {"a" => "b"}, chunks: ["x" * 66_000, "y"],
          requested_at: 1.0, responded_at: 2.0, tags: ["t"])
        store.write("other", new)
        GC.stress = true
        written = store.write("key", new)
        text = store.read("key").first.each.to_a.join
        GC.stress = false
        abort "it is not what was written" unless written && text == "x" * 66_000 + "y" && store.purge_tag("t") == 2
      RUBY
    end

    def store = @store ||= new_store

    def with(**options) = @store = new_store(**options)

    def counted(number) = counts? ? number : 0

    def entry(chunks, status: 200, headers: {}, vary: [["accept-language", "de"], ["x", nil]], tags: [], at: TIME)
      NeverBlock::Cache::Entry.new(status:, headers:, chunks: Array(chunks), requested_at: at, responded_at: at + 0.5, vary:, tags:)
    end

    def body(entry) = entry.each.to_a.join

    def bodies(key) = store.read(key).map { |entry| body(entry) }

    def only(entries)
      assert_equal 1, entries.size
      entries.first
    end
  end
end
