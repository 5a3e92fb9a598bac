# frozen_string_literal: true

require "time"

module Conformance
  # docs/conformance.md: its introduction, and one table for each Ruby and engine. A run replaces its own table and
  # keeps the others.
  class Report
    PATH = File.join(SourceTree::ROOT, "docs", "conformance.md")

    # Everything above the tables.
    INTRODUCTION = <<~TEXT
      # Conformance: Ruby's own tests, Active Record's, Sequel's, those of gems and of HTTP caches, and whole applications

      Ruby comes with tests of its own classes. This page says how they fare with NeverBlock beneath them. It is written by the task that runs them:

      ```
      rake conformance:ruby                                # all, some two minutes an engine
      rake conformance:ruby NEVERBLOCK_ENGINE=epoll,poll   # on these engines
      rake conformance:ruby SUITES=IO,test_socket          # some; this page stays as it is
      rake conformance:ci                                  # the part that belongs to every test run
      ```

      Two kinds of suite:

      - **test/fiber**: Ruby's tests of the fiber scheduler interface, with `NeverBlock::Scheduler` in the place of the sample scheduler that comes with them.
      - **All the others**: Ruby's tests of its core and library, each one (with its set-up and tear-down) run inside a NeverBlock fiber.

      The tests come from the source tree of exactly the running Ruby: `RUBY_SOURCE`, or the tree that `bin/setup` knows. Without one the task fails. Each file runs in a process of its own, under a time limit for each test.

      What the columns mean:

      - *failed*: a failure, an error, a crash, a test that does not end; also an excluded test that passes, and an exclusion whose proof does not hold.
      - *excluded*: named in [`test/conformance/exclusions.yml`](../test/conformance/exclusions.yml) with the reason and the proof that no scheduler could make it pass. Each is run all the same, and must fail; its proof is run too (under the sample scheduler), or is recorded in `test/conformance/proofs` (under async).
      - *not here*: the test says itself that it does not apply to this machine (other systems, other rights), or it fails on this machine without NeverBlock too, which is tried on the spot.
      - *again*: of the passed, those that failed at first and passed when run again by themselves, as Ruby's own runner does on a busy machine.

      Active Record's own tests, with `adapter: neverblock_postgresql`, `neverblock_trilogy` or `neverblock_mysql2` inside a loop:

      ```
      RAILS_SOURCE=/path/to/rails rake conformance:active_record                      # 7.2, 8.0 or 8.1: what depends on the adapter most
      RAILS_SOURCE=/path/to/rails rake conformance:active_record FILES=all            # everything, five to thirty minutes
      RAILS_SOURCE=/path/to/rails rake conformance:active_record FILES=transaction    # parts of file names; this page stays as it is
      RAILS_SOURCE=/path/to/rails DATABASE=trilogy rake conformance:active_record     # with MariaDB; or DATABASE=mysql2
      ```

      Each file (never those for other databases, nor `arel`) is run twice on a PostgreSQL or MariaDB of its own: as Rails runs it, and with our adapter in a fiber of a loop, `isolation_level` being `:fiber`. Here *failed* is whatever fares differently the second time, *excluded* what [`test/conformance/rails/exclusions.yml`](../test/conformance/rails/exclusions.yml) names with the reason, *not here* what does not pass with Rails' own adapter on this machine, or skips itself.

      Sequel's specs of its PostgreSQL adapter and its integration specs, each file in a database of its own, in a loop, with the plain adapter and with `neverblock-postgres`:

      ```
      SEQUEL_SOURCE=/path/to/sequel rake conformance:sequel                          # a checkout of Sequel; its gem has no specs
      SEQUEL_SOURCE=/path/to/sequel rake conformance:sequel SUITES=transaction       # parts of file names; this page stays as it is
      ```

      The suites of gems that use Active Record, those that [`test/conformance/gems/gems.yml`](../test/conformance/gems/gems.yml) describes:

      ```
      NEVERBLOCK_GEMS=/folder/with/checkouts rake conformance:gems                # each in a folder of its gem's name; the gems have no specs
      NEVERBLOCK_GEMS=/folder/with/checkouts rake conformance:gems GEM=scenic     # some; this page stays as it is
      ```

      Each suite is run twice on a PostgreSQL of its own: as the gem runs it, and with our adapter in a fiber of a loop, `isolation_level` being `:fiber`. The results are compared by the names of tests; *differ* counts those that have another one with ours.

      The suite [http-cache-tests](https://cache-tests.fyi), against `neverblock proxy` with a cache, and against nginx and Varnish:

      ```
      rake conformance:http_cache                                                     # all, some five minutes
      rake conformance:http_cache CACHES=neverblock                                   # some; this page stays as it is
      NEVERBLOCK_HTTP_CACHE_TESTS=/path/to/cache-tests rake conformance:http_cache    # the newest, which has a section of its own
      ```

      It needs node, and npm for the package; or a checkout of [the suite's repository](https://github.com/http-tests/cache-tests), after `npm install` in it: its tests are newer, and npm has none of them yet. Each cache stands in front of the suite's own origin server; what does not pass at once is tried twice more. What does not pass with NeverBlock is named in [`test/conformance/http_cache/exclusions.yml`](../test/conformance/http_cache/exclusions.yml) with the reason. A part of every test run does the same.

      How often an origin server is asked while clients wait for one response, by the same proxies:

      ```
      rake conformance:collapse                   # all, some three minutes
      rake conformance:collapse CACHES=nginx      # some; this page stays as it is
      ```

      Whole applications, on NeverBlock and on Puma in one process each, with the database as it was seeded and an empty cache:

      ```
      NEVERBLOCK_CAMPFIRE=/path/to/once-campfire rake conformance:applications      # ten rounds, and the application's own suite
      NEVERBLOCK_REDMINE=/path/to/redmine rake conformance:applications SUITE=no    # the load alone
      ```

      Visitors log in through the form, browse and send forms; [`test/conformance/applications`](../test/conformance/applications) has what they do in each application, and a file of the same kind describes another one (`NEVERBLOCK_APPLICATION=my.yml`). In each round every server starts anew, beginning with another one each time. *puma 3* has the threads that `rails new` writes, *puma 5* those that are Puma's own. Ratios are ours to theirs, with the interval in which they are to 95 %; *short* is where the interval does not reach 1, or the median misses by more than 2 %. The answers to a visitor that is alone are compared as texts, those under load by status and by what they must have. The suite runs as it comes, and in a loop with our adapter, and failures are compared by name.
    TEXT

    COLUMNS = ["suite", "tests", "assertions", "failed", "excluded", "not here", "again"].freeze

    # @param session [Session] a complete run
    def initialize(session)
      @session = session
    end

    # Writes the page.
    # @return [String] its path
    def write
      old = File.exist?(PATH) ? File.read(PATH) : ""
      sections = old.split(/^(?=## )/).drop(1).to_h { |section| [section.lines.first.strip, section.strip] }
      sections[title] = section
      File.write(PATH, [INTRODUCTION.strip, *sections.sort.map(&:last)].join("\n\n") + "\n")
      PATH
    end

    private

    # "4.1.0dev" for a Ruby that is not released yet.
    def title = "## Ruby #{RUBY_DESCRIPTION[/\Aruby (\S+)/, 1]}, #{@session.engine}"

    def section
      rows = @session.runs.map { |suite, runs| row(suite.respond_to?(:name) ? suite.name : suite, runs) }
      rows << row("**all**", @session.runs.values.flatten)
      [title, "", about, "", *table(rows), *notes].join("\n")
    end

    def about = "`#{RUBY_DESCRIPTION}`, #{Time.now.utc.strftime("%F")}, #{@session.time.round} s."

    def notes
      [*listing("stock", "Fail on the machine of this run without NeverBlock too:"), *listing("unsteady", "Passed when run again:"), *listing("failed", "Failed:")]
    end

    def row(name, runs)
      verdicts = runs.flat_map(&:verdicts)
      count = ->(*kinds) { verdicts.count { |verdict| kinds.include?(verdict.kind) } }
      [name, verdicts.size, verdicts.sum(&:assertions), count["failed"], count["excluded"], count["skipped", "stock"], count["unsteady"]]
    end

    def table(rows)
      ["| #{COLUMNS.join(" | ")} |", "|---|#{"--:|" * (COLUMNS.size - 1)}", *rows.map { |row| "| #{row.join(" | ")} |" }]
    end

    def listing(kind, heading)
      tests = @session.runs.values.flatten.flat_map { |run| run.verdicts.select { |verdict| verdict.kind == kind }.map { |verdict| "- `#{run.file}` #{verdict.test}" } }
      tests.empty? ? [] : ["", heading, "", *tests.sort]
    end
  end
end
