# frozen_string_literal: true

require_relative "functions"
require_relative "keywords"
require_relative "settings"

module NeverBlock
  class Postgres
    # Scans the tokens of one statement for calls, for writes, and for names of session state. The only grammar that it
    # knows: a name before a parenthesis is a call, unless it is certain that it is not.
    #
    #   scanner = StatementScanner.new(Lexer.tokens("SELECT lower(name), price(id) FROM items FOR UPDATE"), allowed)
    #   scanner.writes   # => "row locks (FOR UPDATE)"
    #   scanner.unsure   # => "it calls price(), which is not known to be …"
    #
    # {#no_call} has the reasons why a name before a parenthesis is not a call. Operators, casts, views, triggers and
    # computed columns ("row.name") call functions without a parenthesis: {Reach} knows those.
    class StatementScanner
      ACTIONS = {
        "(" => :open, ")" => :close, "." => :attribute, "[" => :open_bracket, "]" => :close,
        "into" => :into, "insert" => :modify,
        "update" => :modify, "delete" => :modify, "merge" => :modify, "for" => :lock, "group" => :group,
        "conflict" => :conflict, "do" => :do, "case" => :case, "end" => :case
      }.merge(%w[having order window union intersect except limit offset fetch returning select from where]
        .to_h { |word| [word, :clause] }).freeze

      # Bits for the open parenthesis. FOLLOWED: it is a query's or a call's, so an alias with columns, OVER or FILTER
      # may follow its end. QUERY: it is a CTE's query. JSON: it is JSON_TABLE's. GROUPS: items of GROUP BY are in it.
      FOLLOWED, QUERY, JSON, GROUPS = 1, 2, 4, 8

      # Names of session state: temporary tables; views of settings (which a write sets), prepared statements, cursors.
      SESSION_NAMES = /\A"?pg_(?:
        (?:toast_)?temp(?:_\d+)?|settings|prepared_statements|cursors|backend_memory_contexts|stat_xact_\w+
      )"?\z/x
      CURRVAL = %w[currval lastval "currval" "lastval"].to_h { |word| [word, true] }.freeze
      NAMES = Array.new(256) { |byte| byte >= 0x80 || "abcdefghijklmnopqrstuvwxyz_\"".include?(byte.chr) }.freeze
      private_constant(*constants(false))

      # @param tokens [Array<String>]
      # @return [Boolean] whether they call currval or lastval
      def self.currval?(tokens)
        tokens.each_cons(2).any? { |one, other| (other == "(") ? CURRVAL[one] : one == "." && CURRVAL[other] }
      end

      # @param tokens [Array<String>]
      # @return [String, nil] the session state that they name, in words
      def self.session_name(tokens)
        name = tokens.find { |token| SESSION_NAMES.match?(token) }
        "it names #{name}, which belongs to the session" if name
      end

      # @return [String, nil] why it may leave session state, in words
      attr_reader :unsure

      # @return [String, nil] why it is not a read, in words
      attr_reader :writes

      # @return [String, nil] an effect of it that ends with its transaction, in words
      attr_reader :transactional

      # @return [String, nil] the setting that it sets until its transaction ends
      attr_reader :setting

      # @return [String, nil] the only setting that it leaves changed in its session, by set_config(…, false)
      attr_reader :session_setting

      # @return [String, nil] a call that reads session state, in words
      attr_reader :looks

      # @param tokens [Array<String>] of one statement
      # @param allowed [Hash{String=>Symbol}] :syntax, :read, :write, :transactional, :looking by name, "schema\0name"
      # @param start [Integer] index of the first token to scan
      # @param definition [Symbol, nil] :index, :table or :alter for a definition
      def initialize(tokens, allowed, start: 0, definition: nil)
        @tokens, @allowed, @start, @definition = tokens, allowed, start, definition
        @frames, @frame = [], 0
        @conflicts = @actions = @cases = 0
        read
        @unsure ||= "its parentheses don't match" unless @frames.empty?
        @unsure ||= "it calls conflict(), or has an ON CONFLICT that is not understood" if @conflicts != @actions
        check_session_setting if @session_setting
      end

      private

      def read
        tokens = @tokens
        at = @start - 1
        while (token = tokens[at += 1])
          next own(token) if token.start_with?("pg_", '"')
          case ACTIONS[token]
          when :open then opened(at)
          when :close then closed(at)
          when :attribute then attribute(at)
          when :open_bracket then @frames.push(@frame) && @frame = 0
          when :group then (tokens[at + 1] == "by") && @frame |= GROUPS
          when :clause then @frame &= ~GROUPS
          when :modify then modify(token, at)
          when :into then into(at)
          when :lock then lock(at)
          when :conflict then @conflicts += 1 if tokens[at - 1] == "on"
          # A DO after THEN is MERGE's.
          when :do then @actions += 1 if %w[nothing update].include?(tokens[at + 1]) && tokens[at - 1] != "then"
          when :case then @cases += (token == "case") ? 1 : -1 unless %w[. as].include?(tokens[at - 1])
          end
          break if @unsure
        end
      end

      def own(token)
        @unsure ||= self.class.session_name([token]) if token.start_with?("pg_", '"pg_')
      end

      # `(x).f` is a call too, of any function with one argument; so is `x.f` if x is the result of a function in FROM.
      def attribute(at)
        name = @tokens[at + 1] or return
        return if @tokens[at + 2] == "("
        name = name[1..-2] if name.start_with?('"')
        called(name, at) || unknown(name) if Functions::ATTRIBUTES.match?(name)
      end

      def modify(token, at)
        return if at > @start && @tokens[at - 1] == "."
        @merges = true if token == "merge"
        @writes ||= token.upcase
      end

      # INTO of INSERT or MERGE is harmless, where that begins a statement: these words can also be names of columns.
      def into(at)
        verb = at - 1
        begins = verb == @start || (verb > @start && (@tokens[verb - 1] == "(" || @query == verb - 1))
        return if begins && %w[insert merge].include?(@tokens[verb])
        @unsure = "SELECT INTO makes a table"
      end

      def lock(at)
        @frame &= ~GROUPS
        @writes = "row locks (FOR #{@tokens[at + 1].upcase})" if %w[update share no key].include?(@tokens[at + 1])
      end

      def opened(at)
        name = @tokens[at - 1] if at > @start
        frame = (name && NAMES[name.getbyte(0)]) ? named(at, name) : 0
        frame |= FOLLOWED if query?(at)
        @frames.push(@frame)
        @frame = frame
      end

      def closed(at)
        @followed = at if @frame.anybits?(FOLLOWED)
        @query = at if @frame.anybits?(QUERY)
        @frame = @frames.pop
        @indexed = true
        return if @frame
        @frame = 0
        @unsure = "its parentheses don't match"
      end

      # @return [Boolean, nil] whether a query begins after the parenthesis; no argument of a function begins so
      def query?(at)
        case @tokens[at + 1]
        when "select", "with", "table" then true
        when "values" then @tokens[at + 2] == "("
        end
      end

      # @return [Integer] bits for the parenthesis after the name
      def named(at, name)
        before = @tokens[at - 2] if at - 2 >= @start
        return qualified(at) if before == "."
        return operator(at) if name == "operator"
        quoted = name.start_with?('"')
        key = quoted ? name[1..-2] : name
        return syntax(at, name) if @allowed[key] == :syntax && !quoted
        called(key, at) || no_call(at, quoted ? nil : name, before) || unknown(key)
      end

      # OPERATOR(pg_catalog.+). Unlike after other parentheses, an expression follows it.
      def operator(at)
        return 0 if @tokens[at + 1, 2] == %w[pg_catalog .] && @tokens[at + 4] == ")"
        unknown("operator")
      end

      def syntax(at, name)
        case name
        when "as" then modifies_or_queries?(at) ? QUERY : 0
        when "group", "json_arrayagg", "json_objectagg" then FOLLOWED
        when "json_table" then JSON | FOLLOWED
        else 0
        end
      end

      def modifies_or_queries?(at)
        query?(at) || [%w[insert into], %w[delete from], %w[merge into]].include?(@tokens[at + 1, 2])
      end

      # @return [Integer, nil] nil: it may be a call
      def no_call(at, name, before)
        return QUERY if name == "materialized" && (before == "as" || (before == "not" && @tokens[at - 3] == "as")) &&
          modifies_or_queries?(at)
        return FOLLOWED if query?(at) || Keywords::NAMING[before] || target?(at - 1) || belongs?(at, before)
        return unless name
        return (name == "sets") ? GROUPS : FOLLOWED if Keywords::PAIRS[name]&.include?(before)
        case name
        when "rollup", "cube" then FOLLOWED if @frame.anybits?(GROUPS) && %w[by , ( distinct all].include?(before)
        when "conflict" then 0 if before == "on"
        when "set" then 0 if (@writes || @definition == :alter) && names?(before)
        when "reset" then 0 if @definition == :alter && names?(before)
        when "insert" then 0 if before == "then" && @merges && @cases.zero?
        when "columns"
          JSON | FOLLOWED if @frame.anybits?(JSON) && (before.start_with?("'") || @tokens[at - 3] == "as")
        when "list", "range", "hash"
          FOLLOWED if @definition == :table && before == "by" && @tokens[at - 3] == "partition" && @frames.empty?
        when "gist", "btree", "spgist" then FOLLOWED if before == "using" && exclusion?(at - 3)
        end
      end

      # The table of INSERT INTO or CREATE INDEX, with its columns; `at` is where its name begins.
      def target?(at)
        return true if @tokens[at - 1] == "into" && @tokens[at - 2] == "insert"
        @definition == :index && !@indexed && @frames.empty?
      end

      # After a query or call: an alias with its columns, OVER, FILTER; after a CTE's query and a comma: the next CTE.
      def belongs?(at, before)
        (before == ")" && @followed == at - 2) || (before == "," && @query == at - 3)
      end

      # An EXCLUDE constraint; but a type may have that name: ALTER … TYPE exclude USING gist(c).
      def exclusion?(at)
        @tokens[at] == "exclude" &&
          (@definition == :table || @tokens[at - 1] == "add" || @tokens[at - 2] == "constraint")
      end

      # @return [Boolean] whether it may be the name of a table or alias, which SET can follow
      def names?(token)
        token && NAMES[token.getbyte(0)] && @allowed[token] != :syntax && !Keywords::BEFORE_EXPRESSIONS[token]
      end

      def qualified(at)
        first = at - 1
        first -= 2 while first - 2 >= @start && @tokens[first - 1] == "." && NAMES[@tokens[first - 2].getbyte(0)]
        return FOLLOWED if first > @start && (Keywords::NAMING[@tokens[first - 1]] || target?(first))
        parts = @tokens[first...at].reject { |token| token == "." }.map do |part|
          part.start_with?('"') ? part[1..-2] : part
        end
        return unknown(parts.join(".")) if parts.size != 2 || (first > @start && @tokens[first - 1] == ".")
        called((parts[0] == "pg_catalog") ? parts[1] : parts.join("\0"), at) || unknown(parts.join("."))
      end

      # @return [Integer, nil] nil: the function is unknown
      def called(key, at)
        case @allowed[key]
        when :read then FOLLOWED
        when :write then FOLLOWED.tap { @writes ||= "it calls #{key}" }
        when :transactional then FOLLOWED.tap { @transactional ||= "it calls #{key}" }
        when :looking then FOLLOWED.tap { @looks ||= "it calls #{key}(), which looks at its session" }
        else
          return unless key == "set_config"
          return FOLLOWED if (name = configured(at, "false")) && (@session_setting.nil? || @session_setting == name) &&
            (@session_setting = name)
          return unless (name = configured(at, "true"))
          @setting = name if @setting.nil? || Settings::MEANING[name] # of several settings these matter
          @transactional ||= "set_config(…, true)"
          FOLLOWED
        end
      end

      # It must do nothing else. What it reads is looked up as for any read.
      def check_session_setting
        @session_setting = nil if @unsure || @writes || @transactional || @definition
        @unsure || unknown("set_config")
      end

      # @param at [Integer] index of set_config's parenthesis
      # @param local [String] the required last argument; "true": until the transaction's end
      # @return [String, nil] the setting, if its name is a literal and the last argument fits
      def configured(at, local)
        first, _value, last, *more = arguments(at)
        return unless last == [local] && more.empty? && first.size == 1
        name = first[0][/\A'([A-Za-z_][\w.$]*)'\z/, 1]&.downcase(:ascii)
        name unless name == "seed"
      end

      # @return [Array<Array<String>>] the tokens of each argument
      def arguments(at)
        found, depth = [[]], 0
        while (token = @tokens[at += 1])
          case token
          when "(", "[" then depth += 1
          when ")", "]" then break if (depth -= 1) < 0
          when "," then next found << [] if depth.zero?
          end
          found.last << token
        end
        found
      end

      def unknown(name)
        state = "leaves or reads session state" if Functions::KEEPS_STATE.match?(name.delete_prefix("pg_catalog."))
        @unsure = "it calls #{name}(), which " \
          "#{state || "is not known to be free of session state; name it in shareable_functions if it is"}"
        0
      end
    end
  end
end
