# frozen_string_literal: true

# Puts a benchmark's figures between its two marks in docs/benchmarks.md, and its
# charts beside that page. Figures get there in no other way.
#
#   Bench::DocsPage.new.update("runtime", machine, markdown, {"" => svg})
require "fileutils"
require_relative "load_path"
require_relative "markdown"

module Bench
  class DocsPage
    FOLDER = File.join(LoadPath::ROOT, "docs")

    # @param folder [String] where benchmarks.md lies
    def initialize(folder = FOLDER)
      @folder = folder
      @page = File.join(folder, "benchmarks.md")
    end

    # @param name [String] of the benchmark
    # @param machine [Hash{String=>String}]
    # @param body [String] Markdown
    # @param charts [Hash{String=>String}] SVG by the suffix of the file's name
    # @raise [RuntimeError] where the page has no place for it
    def update(name, machine, body, charts)
      page = File.read(@page)
      place = /(<!-- figures: #{name} -->\n).*?(<!-- end -->)/m
      raise "docs/benchmarks.md has no place \"<!-- figures: #{name} -->\"; add it, with \"<!-- end -->\" below" unless page.match?(place)
      images = charts.map { |suffix, svg| image(name, suffix, svg) }
      File.write(@page, page.sub(place) { "#{$1}\n#{Markdown.list(machine)}\n#{images.join}\n#{body}\n#{$2}" })
    end

    private

    def image(name, suffix, svg)
      FileUtils.mkdir_p(File.join(@folder, "benchmarks"))
      File.write(File.join(@folder, "benchmarks", "#{name}#{suffix}.svg"), svg)
      "![#{name}#{suffix}](benchmarks/#{name}#{suffix}.svg)\n"
    end
  end
end
