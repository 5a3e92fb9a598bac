# frozen_string_literal: true

require_relative "dependencies"
require_relative "lexer"

module NeverBlock
  class Postgres
    # Knows the things of a database (views, tables, types, operators, functions) that may leave session state, and
    # tells whether a statement may reach one: it is doubtful if it has the name of such a thing, in any schema.
    #
    #   reach = Reach.new(pg.exec(Dependencies.question([])).values)
    #   reach.doubt("select * from sales", classification)
    #   # => "it uses view sales, which calls function shop.price(integer): name that in shareable_functions if …"
    #
    # In most databases there is no such thing, and no statement is doubtful.
    # @api private
    class Reach
      # One row of the query's result.
      Thing = Struct.new(*Dependencies::COLUMNS.map(&:to_sym)) do
        # @return [Array(String, String)]
        def key = [self[:class], id]

        # @return [Boolean]
        def writes? = writes == "t"
      end

      # Operators that a word calls without writing them.
      IMPLIED = {
        "in" => %w[= <>], "case" => %w[=], "nullif" => %w[=], "using" => %w[=], "natural" => %w[=], "distinct" => %w[=],
        "between" => %w[< > <= >=],
        "like" => %w[~~ !~~], "ilike" => %w[~~* !~~*], "similar" => %w[~ !~]
      }.freeze

      # Functions that read a type's name, or a value of a type, from a text.
      BY_TEXT = %w[pg_input_is_valid pg_input_error_info].freeze

      # Functions that are called without parentheses.
      VALUES = /\A(?:
        current_(?:user|role|catalog|schema|date|time|timestamp)|session_user|user|localtime|localtimestamp
      )\z/x

      # First tokens of statements without definitions.
      PLAIN = %w[select values table with insert update delete merge explain (].to_h { |word| [word, true] }.freeze

      # Things that a reason leaves out: a view's rule adds nothing to the view.
      SILENT = ->(thing) { thing.words.to_s.include?("_RETURN") }

      # Bytes; PostgreSQL truncates longer names.
      LONGEST_NAME = 63

      # Shapes that are cached. Tokens of the longest statement whose fingerprint is complete, so that it can be cached.
      MAX_SHAPES, WHOLE_TOKENS = 2_000, 300
      private_constant(*constants(false))

      # @param message [String] why the catalogue is unknown
      # @return [Reach] one for which every statement is doubtful
      def self.unknown(message) = new([]).tap { |reach| reach.send(:doubt_all, message) }

      # @param rows [Array<Array<String, nil>>] of {Dependencies.question}
      def initialize(rows)
        @rows = rows
        @read, @written, @called, @fields, @scalars, @operators = {}, {}, {}, {}, {}, {}
        @parents = {}
        things = rows.select(&:first).map { |row| Thing.new(*row.map { |text| text && readable(text) }) }
        things.each { |thing| @parents[[thing.key, thing.writes?]] ||= thing }
        things.each { |thing| book(thing) }
        IMPLIED.each do |word, symbols|
          symbols.each { |symbol| @operators[symbol] && @read[word] ||= @operators[symbol] }
        end
        BY_TEXT.each { |name| @called[name] = @type } if @type
        @empty = [@read, @written, @called, @fields, @scalars, @operators].all?(&:empty?) && @everything.nil? &&
          @definition.nil?
        @judged = {}.compare_by_identity
      end

      # @return [Boolean] whether no statement is doubtful
      def empty? = @empty

      # @param rows [Array<Array<String, nil>>] of {Dependencies.question} with the {#seeds}
      # @return [Reach] one that knows these things too
      def with(rows) = (rows.any? { |row| row[0] }) ? Reach.new(@rows + rows) : self

      # @param ids [Array<String>] OIDs
      # @return [Array<Array<String>>] the things that have them: class, id, writes
      def seeds(ids)
        @things ||= @rows.flat_map { |row| reached(row) }.uniq.group_by { |_, id, _| id }
        @things.values_at(*ids).compact.flatten(1)
      end

      # Cache by the statement's shape, without a lock: threads that collide judge twice.
      # @return [Hash{String=>String, false}] by the fingerprint's identity: why it may leave session state; or false
      attr_reader :judged

      # @param sql [String]
      # @param classification [Classification]
      # @return [String, nil] why it may leave session state
      def doubt(sql, classification)
        return if @empty
        known = @judged[classification.fingerprint]
        (known.nil? ? judge(sql, classification) : known) || nil
      end

      private

      # The last row names all that were reached.
      def reached(row) = row[0] ? [row.values_at(0, 1, 4)] : row.last.to_s.split.map { |thing| thing.split(":") }

      # Converts to UTF-8, as statements are: the connection may have another encoding.
      def readable(text)
        (text.encoding == Encoding::BINARY) ? text.dup.force_encoding(Encoding::UTF_8) : text.encode(Encoding::UTF_8)
      end

      def doubt_all(message)
        @message = message
        @empty = false
      end

      # Things without a name here (an index, a cast of a user's type) only lead to others.
      def book(thing)
        return unless thing.name
        case thing.kind
        when "relation" then @read[thing.name] ||= thing
        when "written" then @written[thing.name] ||= thing
        when "type" then @type = @read[thing.name] ||= thing
        when "function" then @called[thing.name] ||= thing
        when "field" then @fields[thing.name] ||= thing
        when "scalar" then @scalars[thing.name] ||= thing
        when "operator" then @operators[thing.name] ||= thing
        when "everything" then @everything ||= thing
        when "definition" then @definition ||= thing
        end
      end

      def judge(sql, classification)
        return @message if @message
        tokens = Lexer.tokens(SqlShape.of(sql, :postgres, true) || sql) # it has the same words
        reason = explain(found(tokens, classification.kind != :read))
        return reason if tokens.size > WHOLE_TOKENS
        @judged.clear if @judged.size >= MAX_SHAPES
        @judged[classification.fingerprint] = reason || false
      end

      def found(tokens, writes)
        return @everything if @everything
        return @definition if @definition && writes && !PLAIN[tokens[0]]
        tokens.each_with_index do |token, at|
          thing =
            if name?(token)
              names(token).filter_map { |name| named(name, tokens, at, writes) }.first
            else
              operator(token)
            end
          return thing if thing
        end
        nil
      end

      def named(name, tokens, at, writes)
        @read[name] || (writes && @written[name]) || (tokens[at + 1] == "(" && @called[name]) ||
          (at > 1 && tokens[at - 1] == "." && field(name, tokens, at - 2))
      end

      # `x.f` may call f of a row; or of a value, if x is an expression or the result of a function in FROM.
      def field(name, tokens, at)
        @fields[name] || (@scalars.key?(name) && value?(tokens, at) && @scalars[name])
      end

      def value?(tokens, at)
        return true unless name?(tokens[at])
        name = bare(tokens[at])
        tokens.each_with_index.any? do |token, other|
          next unless name?(token) && bare(token) == name
          before = tokens[other - ((tokens[other - 1] == "as") ? 2 : 1)]
          tokens[other + 1] == "(" || (other > 0 && (before == ")" || VALUES.match?(before)))
        end
      end

      # A token may be two operators, such as "=-".
      def operator(token)
        return if @operators.empty?
        token = "<>" if token == "!="
        @operators.find { |symbol, _| token.include?(symbol) && !token.start_with?("'") }&.last
      end

      def name?(token) = token.match?(/\A["a-z_\u0080-\u{10ffff}]/)

      # The names that the server may read: it truncates long ones; in single-byte encodings it folds case beyond ASCII.
      def names(token)
        name = bare(token)
        return [name] if name.ascii_only? && name.bytesize <= LONGEST_NAME
        [name, name.downcase].flat_map { |one| [one, one.byteslice(0, LONGEST_NAME).scrub(""), one[0, LONGEST_NAME]] }
          .uniq
      end

      def bare(token) = token.start_with?('"') ? token[1..-2].gsub('""', '"') : token

      # The way from the thing that a statement uses to the function that may leave session state.
      def explain(thing)
        return unless thing
        chain = [thing]
        chain << thing while (thing = parent(thing))
        *users, function = chain
        words = users.reject(&SILENT).map { |user| "uses #{user.words}" } <<
          "#{function.words.to_s.start_with?("function") ? "calls" : "uses"} #{function.words}"
        way = "it #{words.join(", which ")}"
        return way unless function.id.to_i >= Dependencies::FIRST_USER_OID
        "#{way}: name that in shareable_functions if it leaves nothing in its session"
      end

      def parent(thing)
        return unless thing.parent
        key = [thing.parent_class, thing.parent]
        @parents[[key, false]] || @parents[[key, true]]
      end
    end
  end
end
