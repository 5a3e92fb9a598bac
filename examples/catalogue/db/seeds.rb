# frozen_string_literal: true

Product.insert_all!(Array.new(45) { |number| {name: "Product #{number + 1}", price: 100 * (number + 1)} })
