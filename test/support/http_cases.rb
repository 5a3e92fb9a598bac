# frozen_string_literal: true

module NeverBlockTest
  # Cases for the HTTP parser, one test each. A case's bytes are given to the parser at once, in two pieces cut at every
  # position, and byte by byte: the outcome must be the same.
  #
  #   class HttpFieldsTest < Minitest::Test
  #     extend NeverBlockTest::HttpCases
  #
  #     accepts "a tab before a value", head("A:\tb"), fields: [["Host", "a"], ["A", "b"]]
  #     refuses "a folded field (RFC 9112 §5.2)", head("A: b", " c"), 400, /folded/
  #     waits "for the last line feed", "GET / HTTP/1.1\r\nHost: a\r\n\r"
  #   end
  #
  # `limits` are Head.parse's: uri and head in bytes, fields in number.
  module HttpCases
    def self.extended(test) = test.include(Parsing)

    # A request head of HTTP/1.1 with Host and these field lines.
    def head(*lines, request: "GET / HTTP/1.1") = [request, "Host: a", *lines, "", ""].join("\r\n").b

    # A head of these lines alone.
    def bare(*lines) = [*lines, "", ""].join("\r\n").b

    # The parser's result must have these pairs. The head ends with the last byte, unless `rest` says what follows.
    def accepts(name, bytes, limits: {}, rest: "", **pairs)
      define_case(name, bytes + rest, limits) do |outcome|
        assert_kind_of Hash, outcome
        assert_equal pairs, outcome.slice(*pairs.keys)
        assert_equal bytes.bytesize, outcome[:head_length]
        (0...bytes.bytesize).each { |size| assert_equal :more, parse(bytes.byteslice(0, size), **limits) }
        assert_equal outcome, parse(bytes + "\0GET / HTTP/1.1\n", **limits), "what follows was looked at"
      end
    end

    # The parser refuses with this status and reason, and no byte that could follow changes that.
    def refuses(name, bytes, status, reason, limits: {})
      define_case(name, bytes, limits) do |outcome|
        assert_kind_of Array, outcome
        assert_equal status, outcome.first, outcome.last
        assert_match reason, outcome.last
        ["\0", "\n", "\r\n\r\n", "a: b\r\n\r\n", "a" * 200].each do |more|
          assert_equal outcome, parse(bytes + more, **limits)
        end
      end
    end

    # The parser needs more bytes.
    def waits(name, bytes, limits: {})
      define_case(name, bytes, limits) { |outcome| assert_equal :more, outcome }
    end

    private

    def define_case(name, bytes, limits, &check)
      bytes = bytes.b
      define_test(name) do
        outcome = parse(bytes, **limits)
        instance_exec(outcome, &check)
        (1...bytes.bytesize).each { |cut| assert_equal outcome, parse(bytes, cuts: [cut], **limits), "cut at #{cut}" }
        assert_equal outcome, parse(bytes, cuts: (1...bytes.bytesize).to_a, **limits), "byte by byte"
      end
    end

    def define_test(name, &)
      method = "test_#{name.tr(" ", "_")}"
      raise ArgumentError, "two cases are called #{name}" if method_defined?(method)
      define_method(method, &)
    end

    # Access to the parser in a test.
    module Parsing
      def parse(...) = NeverBlock::Server::Head.parse(...)

      def parse_chunks(...) = NeverBlock::Server::Head.parse_chunks(...)
    end
  end
end
